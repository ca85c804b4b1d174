"""The facts of delay/drop.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import STREAM, of
from benchmarks.worst.scene import DEAD, KIB, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/drop",
    calls=(("1-1",),),
    fewest=1,
    refused={"no entry": ("no entry",)},
)


@FACTS.worst("10,000 dead letters")
def drop(scene: Scene) -> Act:
    scene.fill(DEAD, (STREAM,), scene.many(10_000), 10 * KIB)
    queue = of(scene)
    entries = [letter.entry for letter in queue.dead_letters(10_000)]
    return lambda: queue.drop_dead_letters(*entries)
