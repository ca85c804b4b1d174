"""The facts of delay/claim_beat.lua: see `tests.facts.facts`."""

from ackq.delay import DelayClaims
from benchmarks.worst.delay import beside, claimed
from benchmarks.worst.scene import NAME, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "delay/claim_beat",
    calls=((1, 1, 3600 * SECOND),),
    fewest=3,
    mistakes=r"""
delay.test_claim_scripts.test_a_replaced_driver_changes_nothing
  given: script="claim_beat"
  a replaced driver goes on
delay.test_claim_scripts.test_long_leases_are_not_renewed
  renews long leases
  - before - now >= timeout * 2 / 3
  + false
delay.test_claim_scripts.test_leases_are_renewed_in_steps
  every step has a base of its own
  - if renewed == 0 then
  + base = now + timeout
  + if renewed == 0 then
  forgets how far it came
  - before, renewed))
  + before, 0))
  leaves one out
  - renewed = renewed + #keys
  + renewed = renewed + #keys + 1
  the next renewal takes the first ends for the last
  - before, renewed = base, 0
  + renewed = 0
  the list expires as if nobody renewed the leases
  - redis.call('PEXPIRE', claim, string.format('%.0f', expiry))
  others see the messages before the lease ends
  - redis.call('ZADD', z, 'XX', unpack(ready))
delay.test_claim_scripts.test_messages_that_left_are_not_renewed_and_do_not_come_back
  takes what left for its own
  takes what was pushed again for its own
  takes back what left
  - redis.call('LSET', claim, index, '')
delay.test_claim_scripts.test_a_claim_that_is_being_returned_is_neither_acked_nor_renewed_nor_read
  renews what is being returned
  - score == 0 or not base
  + not base
""",
)


@FACTS.worst("100,000 of 1,000,000")
def claim_beat(scene: Scene) -> Act:
    count = beside(scene)
    short = claimed(scene, count, timeout=60)
    long = scene.own(DelayClaims(scene.client, NAME, "group"))
    long.adopt(short.epoch)
    return long.beat
