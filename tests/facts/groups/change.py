"""The facts of groups/change.lua: see `tests.facts.facts`."""

from ackq import Groups
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "groups/change",
    calls=((), ("in_flight", 2, "max_in_flight", 9), ("rate", "0/0/0"), ("on_dead", "continue")),
    named_arguments="none",
    refused={
        "another field": ("field", "of"),
        "no value": ("in_flight", 2, "rate"),
    },
)


@FACTS.worst("1,000,000 groups whose turn it is")
def change(scene: Scene) -> Act:
    turns, rates = scene.of_groups("TURNS", "RATES")
    line = "redis.call('ZADD', KEYS[1], n, id) redis.call('ZADD', KEYS[2], n, id)"
    scene.fill(line, (turns, rates), scene.many(1_000_000))
    queue = scene.queue(groups=Groups("customer"))
    return times(20, lambda: queue.set_groups(rate=None))
