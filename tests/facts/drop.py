"""The facts of drop.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "drop",
    calls=(("1-1",),),
    refused={"none": (), "51": ("1-1",) * 51, "entry": ("1-1", "x")},
    named_arguments="none",
)


@FACTS.worst("600,000 dead letters")
def drop_deep(scene: Scene) -> Act:
    scene.dead(scene.many(600_000))
    return _drop_all(scene, 1000)


@FACTS.worst("1,000 x 0.9 MiB")
def drop_large(scene: Scene) -> Act:
    scene.dead(1000, scene.size(LARGE))
    return _drop_all(scene, 1000)


def _drop_all(scene: Scene, count: int) -> Act:
    queue = scene.queue()
    entries = [letter.entry for letter in queue.dead_letters(count)]
    return lambda: queue.drop_dead_letters(*entries)
