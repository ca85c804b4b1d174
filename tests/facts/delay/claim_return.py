"""The facts of delay/claim_return.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import RECEIVES, beside, claimed
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/claim_return",
    calls=((1,),),
    fewest=1,
    mistakes=r"""
delay.test_claim_scripts.test_only_a_released_claim_is_returned
  returns a running claim
  - if tonumber(redis.call('ZSCORE', claims, claim) or 1) ~= 0 then
  + if false then
delay.test_claim_scripts.test_messages_that_left_are_not_returned
  takes what left for its own
  takes what was pushed again for its own
delay.test_claim_scripts.test_a_claim_renewed_in_part_is_returned
  a step begins at the front
delay.test_claim_scripts.test_a_returned_message_is_ready_since_its_former_time
  the delivery counts
  - local count = tonumber(counts[i] or 1) - 1
  + local count = tonumber(counts[i] or 1)
  the lease stays
  - redis.call('ZREM', leases, key)
  they lose their order
  - 'XX', times[i], key)
  + 'XX', '5', key)
  nobody wakes
  - redis.call('LPUSH', wake, '1')
  the note of a message without a count stays
  - redis.call('HDEL', errors, key)
delay.test_claim_scripts.test_counts_go_on
  does not count
  - count_up(1, 'released', returned)
""",
)


@FACTS.worst("100,000 of 1,000,000, with counts")
def claim_return(scene: Scene) -> Act:
    count = beside(scene)
    claims = claimed(scene, count)
    scene.fill("redis.call('HSET', KEYS[1], id, 3)", (RECEIVES,), count)
    return claims.release
