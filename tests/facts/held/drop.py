"""The facts of held/drop.lua: see `tests.facts.facts`."""

from benchmarks.worst.claims import claimed
from benchmarks.worst.scene import LARGE, Act, Scene
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts

FACTS = Facts(
    "held/drop",
    calls=((),),
)


@FACTS.worst("3,000,000 messages in one list")
def drop(scene: Scene) -> Act:
    claimed(scene, scene.many(3_000_000))
    return scene.queue().purge


@FACTS.worst("1,000 x 0.9 MiB in one list")
def drop_large(scene: Scene) -> Act:
    claimed(scene, 1000, scene.size(LARGE))
    return scene.queue().purge


@FACTS.worst("1,000 held lists")
def drop_many(scene: Scene) -> Act:
    hold_lists(scene, 1000, scene.far)
    return scene.queue().purge
