"""The facts of run_now.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad_pairs
from tests.queue.scripts.space import FUTURE

FACTS = Facts(
    "run_now",
    calls=((FUTURE, "later"),),
    refused=bad_pairs(500),
    named_arguments="none",
)


@FACTS.worst("100,000 of 1,000,000, one due time for all")
def run_now(scene: Scene) -> Act:
    scene.delayed(scene.many(1_000_000), score=scene.far)
    queue, ids = scene.queue(), [f"m{n:07d}" for n in range(1, scene.many(100_000) + 1)]
    return lambda: queue.run_now(ids=ids)
