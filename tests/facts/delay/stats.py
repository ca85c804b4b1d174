"""The facts of delay/stats.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import partitioned, spread
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/stats",
    calls=((),),
)


@FACTS.worst("1,024 partitions")
def stats(scene: Scene) -> Act:
    spread(scene, scene.many(300_000))
    return times(20, partitioned(scene).stats)
