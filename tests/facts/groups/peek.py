"""The facts of groups/peek.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import moved_aside
from benchmarks.worst.scene import KIB, LARGE, Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.groups.list import PARKED

FACTS = Facts(
    "groups/peek",
    calls=(("", 100), ("001a0000000000000000", 1), ("", 5, "a")),
    changes_nothing=True,
    fewest=2,
    refused={"no place": ("001a", 1), "none": ("", 0)},
)


def _peek(scene: Scene) -> Act:
    spec = scene.queue(groups=Groups("customer")).execute
    return times(20, lambda: spec(lambda spec: moved_aside.page(spec, b"", 1000)))


@FACTS.worst("1,000,000 in as many groups")
def peek_many(scene: Scene) -> Act:
    scene.fill(PARKED, scene.of_groups("PARKED"), scene.many(1_000_000))
    return _peek(scene)


@FACTS.worst("200 x 0.9 MiB behind 31 short ones")
def peek_large(scene: Scene) -> Act:
    keys = scene.of_groups("PARKED")
    scene.fill(PARKED, keys, 31, 100)
    scene.fill(PARKED, keys, 200, scene.size(LARGE), first=100)
    return _peek(scene)


@FACTS.worst("1,000 x 4 KiB")
def peek_medium(scene: Scene) -> Act:
    scene.fill(PARKED, scene.of_groups("PARKED"), 1000, scene.size(4 * KIB))
    return _peek(scene)
