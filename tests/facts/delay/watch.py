"""The facts of delay/watch.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import partitioned, spread
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/watch",
    calls=((10_000,),),
    fewest=1,
)


@FACTS.worst("1,024 partitions")
def watch(scene: Scene) -> Act:
    spread(scene, scene.many(100_000))
    return times(20, partitioned(scene).counters)
