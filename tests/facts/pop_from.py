"""The facts of pop_from.lua: see `tests.facts.facts`."""

from ackq.queue import pop_from
from ackq.queue.keys import QueueKeys
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "pop_from",
    calls=(
        ("record",),
        ("forget",),
    ),
    changes_nothing=True,
    operation=lambda: pop_from.record(QueueKeys.of("jobs", "left")),
    replies=[b"left"],
    passes={"verb": [b"record"]},
    mistakes=r"""
test_left_end.test_an_end_in_use_is_not_taken_over
  given: use="lease"
  takes over an end in use
  - if claimed + leased > 0 then
  + if false then
test_left_end.test_a_lease_that_ended_does_not_hold_up_the_other_end
  an ended lease holds up
  - redis.call('ZCOUNT', backup, now, '+inf')
  + redis.call('ZCARD', backup)
test_left_end.test_a_string_of_another_program_is_no_record
  given: verb="record"
  overwrites the key of another program
  - local claimed = redis.call('ZCARD', record)
  + local claimed = 0
test_left_end.test_a_record_stays_while_messages_depend_on_it
  given: use="hold"
  forgets claims
  - redis.call('ZCARD', held) + redis.call('ZCARD', delayed)
  + redis.call('ZCARD', delayed)
  given: use="lease"
  forgets leases
  - used + redis.call('ZCARD', backup) > 0
  + used > 0
  given: use="delay"
  forgets delayed messages
  - redis.call('ZCARD', held) + redis.call('ZCARD', delayed)
  + redis.call('ZCARD', held)
test_left_end.test_the_record_of_an_empty_queue_is_forgotten
  never forgets
  - redis.call('DEL', record)
test_left_end.test_the_left_end_is_recorded_on_a_full_server
  the first write may allocate
""",
)


@FACTS.worst("1,000,000 leases that ended")
def record_left_end(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000), score=1, step=1)
    queue = scene.queue(pop_from="left")
    return times(100, lambda: queue.execute(lambda spec: pop_from.record(spec.keys)))
