"""The facts of groups/cancel.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import chosen_messages
from benchmarks.worst.scene import KIB, LARGE, Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.groups.list import PARKED

FACTS = Facts(
    "groups/cancel",
    calls=(("", "a"), ("001a0000000000000000", "a", "b"), ("", "", "a")),
    fewest=2,
    refused={
        "no place": ("001a", "a"),
        "no id": ("",),
        "no group": ("", "", ""),
        "1,001 ids": ("", *["id"] * 1001),
    },
    named_arguments="some",
)


def _cancel(scene: Scene, *ids: str) -> Act:
    spec = scene.queue(groups=Groups("customer")).execute
    return times(1, lambda: spec(lambda spec: chosen_messages.cancel_moved_aside(spec, ids)))


@FACTS.worst("none of 100,000 in as many groups")
def cancel_none(scene: Scene) -> Act:
    scene.fill(PARKED, scene.of_groups("PARKED"), scene.many(100_000))
    return _cancel(scene, "none")


@FACTS.worst("200 x 0.9 MiB behind 31 short ones")
def cancel_large(scene: Scene) -> Act:
    keys = scene.of_groups("PARKED")
    scene.fill(PARKED, keys, 31, 100)
    scene.fill(PARKED, keys, 200, scene.size(LARGE), first=100)
    return _cancel(scene, *(f"m{number:07}" for number in range(100, 300)))


@FACTS.worst("1,000 x 4 KiB")
def cancel_medium(scene: Scene) -> Act:
    scene.fill(PARKED, scene.of_groups("PARKED"), 1000, scene.size(4 * KIB))
    return _cancel(scene, *(f"m{number:07}" for number in range(1000)))
