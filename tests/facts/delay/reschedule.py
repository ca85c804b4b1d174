"""The facts of delay/reschedule.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import of, stored
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/reschedule",
    calls=(("k", "at", 1),),
    fewest=3,
)


@FACTS.worst("one of 3,000,000, one time for all")
def reschedule(scene: Scene) -> Act:
    stored(scene, scene.many(3_000_000), score=8e9)
    queue = of(scene)
    return times(50, lambda: queue.reschedule("m0000001", delay=60))
