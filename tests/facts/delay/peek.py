"""The facts of delay/peek.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import of, stored
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad

GOOD = ("ready", "", "", 1)
FACTS = Facts(
    "delay/peek",
    calls=(GOOD,),
    fewest=4,
    refused=bad(GOOD, {1: ("nan", "x", " ")}),
)


@FACTS.worst("1,000,000, one time for all, page by page")
def peek(scene: Scene) -> Act:
    stored(scene, scene.many(1_000_000))
    queue = of(scene)
    return lambda: queue.peek(min(100_000, scene.many(1_000_000)))


@FACTS.worst("64 x 0.9 MiB")
def peek_large(scene: Scene) -> Act:
    stored(scene, 64, scene.size(LARGE))
    queue = of(scene)
    return lambda: queue.peek(64)


@FACTS.worst("16 x 32 MiB, by a stranger")
def peek_larger(scene: Scene) -> Act:
    stored(scene, 16, scene.size(32 * MIB))
    queue = of(scene)
    return lambda: queue.peek(16)
