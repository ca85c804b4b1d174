"""The facts of delay/claim_ack.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import RECEIVES, beside, claimed
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/claim_ack",
    calls=((1, 1, 1),),
    fewest=3,
    mistakes=r"""
delay.test_claim_scripts.test_a_replaced_driver_changes_nothing
  given: script="claim_ack"
  a replaced driver goes on
delay.test_claim_scripts.test_messages_that_left_are_not_deleted
  takes what left for its own
  takes what was pushed again for its own
delay.test_claim_scripts.test_a_claim_renewed_in_part_is_acked
  a step begins at the front
  one stays
  - redis.call('LTRIM', claim, 0, left - 1)
  + redis.call('LTRIM', claim, 0, left)
delay.test_claim_scripts.test_one_call_deletes_a_bounded_number_of_bytes
  any number of bytes
  - if freed >= FREED then
  + if false then
delay.test_claim_scripts.test_an_ack_deletes_all_that_belongs_to_the_messages
  the bodies stay
  - redis.call('HDEL', h, unpack(done))
  the leases stay
  - redis.call('ZREM', leases, unpack(done))
  the counts stay
  - redis.call('HDEL', receives, unpack(done))
  the notes stay
  - redis.call('HDEL', errors, unpack(done))
  the record stays
  - redis.call('HDEL', group, leased_until)
  does not count
  - count_up(1, 'acked', #done)
  the batch is open
  - if up_to > tonumber(facts[2] or 0) then
  + if false then
delay.test_claim_scripts.test_a_claim_that_is_being_returned_is_neither_acked_nor_renewed_nor_read
  acks what is being returned
  - if score == 0 then
  + if false then
delay.test_claim_scripts.test_a_claim_whose_list_is_gone_is_forgotten
  a claim without a list stays
  - redis.call('ZREM', claims, claim)
""",
)


@FACTS.worst("100,000 of 1,000,000, with counts")
def claim_ack(scene: Scene) -> Act:
    count = beside(scene)
    claims = claimed(scene, count)
    scene.fill("redis.call('HSET', KEYS[1], id, 3)", (RECEIVES,), count)
    return lambda: claims.ack(1)


@FACTS.worst("1,000 x 0.9 MiB")
def claim_ack_large(scene: Scene) -> Act:
    claims = claimed(scene, 1000, scene.size(LARGE))
    return lambda: claims.ack(1)
