"""The facts of pop_from.lua: see `tests.facts.facts`."""

from ackq.queue import pop_from
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "pop_from",
    calls=(
        ("record",),
        ("forget",),
    ),
    changes_nothing=True,
    mistakes=r"""
test_left_end.test_a_lease_that_ended_does_not_hold_up_the_other_end
  an ended lease holds up
  - redis.call('ZCOUNT', backup, now, '+inf')
  + redis.call('ZCARD', backup)
""",
)


@FACTS.worst("1,000,000 leases that ended")
def record_left_end(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000), score=1, step=1)
    queue = scene.queue(pop_from="left")
    return times(100, lambda: queue.execute(lambda spec: pop_from.record(spec.keys)))
