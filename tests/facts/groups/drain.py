"""The facts of groups/drain.lua: see `tests.facts.facts`."""

from ackq import Groups
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.facts.groups.pop import PARKED

FACTS = Facts(
    "groups/drain",
    calls=((1000,),),
    fewest=1,
)


def _drain(scene: Scene, count: int, size: int = 100) -> Act:
    scene.fill(PARKED, scene.of_groups("PARKED", "BUSY"), count, size)
    queue = scene.queue(groups=Groups("customer"))
    return queue.drain


@FACTS.worst("300,000 parked of one group")
def drain_parked(scene: Scene) -> Act:
    return _drain(scene, scene.many(300_000))


@FACTS.worst("200 x 0.9 MiB parked")
def drain_large(scene: Scene) -> Act:
    return _drain(scene, 200, scene.size(LARGE))
