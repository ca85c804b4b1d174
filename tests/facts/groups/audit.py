"""The facts of groups/audit.lua: see `tests.facts.facts`."""

from ackq import Groups
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.groups.list import FILLED, PARKED

FACTS = Facts(
    "groups/audit",
    calls=(("slots", "", 0), ("turns", "", 1)),
    refused={
        "no such walk": ("all", "", 0),
        "repair is no flag": ("slots", "", 2),
    },
)

IN_FLIGHT = "redis.call('HSET', KEYS[1], id, '=' .. string.rep('0', 16) .. 'a')"


@FACTS.worst("1,000,000 groups, 1,000 messages in flight")
def audit_groups(scene: Scene) -> Act:
    scene.fill(FILLED, scene.of_groups("BUSY", "TURNS"), scene.many(1_000_000))
    scene.fill(IN_FLIGHT, scene.of_groups("FLIGHT"), 1000)
    scene.fill(PARKED, scene.of_groups("PARKED"), scene.many(10_000))
    queue = scene.queue(groups=Groups("customer"))
    return times(1, lambda: queue.audit(repair=True))
