"""The facts of delay/purge.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import partitioned, spread
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/purge",
    calls=((0,),),
    fewest=1,
)


@FACTS.worst("1,000,000 in 1,024 partitions")
def purge(scene: Scene) -> Act:
    spread(scene, scene.many(1_000_000))
    queue = partitioned(scene)
    return lambda: queue.purge(dead=True)
