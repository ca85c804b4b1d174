"""The facts of forget.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import record
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts
from tests.facts.groups.list import FILLED

FACTS = Facts(
    "forget",
    calls=((),),
)


@FACTS.worst("1,000,000 groups")
def forget_groups(scene: Scene) -> Act:
    scene.fill(FILLED, scene.of_groups("BUSY", "TURNS"), scene.many(1_000_000))
    queue = scene.queue(groups=Groups("customer"))
    return lambda: queue.execute(lambda spec: record.forget(spec.keys))
