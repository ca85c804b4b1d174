"""The facts of delay/reschedule.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import of, stored
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/reschedule",
    calls=(("k", "at", 1),),
    fewest=3,
    mistakes=r"""
delay.test_delay.test_reschedule_moves_what_waits_and_leaves_what_is_held
  moves what is leased
  - if (lease and tonumber(lease) > now) or not
  + if not
  what is not stored is said to be moved
  - not redis.call('ZSCORE', ready, key) then
  + false then
  any time counts from now
  - if base == 'delay' then
  + if true then
delay.test_delay.test_a_message_rescheduled_after_its_lease_cannot_be_deleted_by_its_old_holder
  a delay counts from the epoch
  - if base == 'delay' then
  + if false then
delay.test_delay.test_a_waiting_consumer_is_woken_by_an_earlier_arrival
  given: late="reschedule"
  wakes nobody
  - redis.call('LPUSH', wake, '1')
""",
)


@FACTS.worst("one of 3,000,000, one time for all")
def reschedule(scene: Scene) -> Act:
    stored(scene, scene.many(3_000_000), score=8e9)
    queue = of(scene)
    return times(50, lambda: queue.reschedule("m0000001", delay=60))
