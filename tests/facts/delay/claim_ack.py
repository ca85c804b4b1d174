"""The facts of delay/claim_ack.lua: see `tests.facts.facts`."""

from __future__ import annotations

from benchmarks.worst.delay import RECEIVES, beside, claimed
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts, Mistake
from tests.facts.parts import FROM_THE_FRONT, PUSHED_AGAIN, REPLACED_DRIVER, WHAT_LEFT

FACTS = Facts(
    "delay/claim_ack",
    calls=((1, 1, 1),),
    fewest=3,
    mistakes={
        "delay.test_claim_scripts.test_a_replaced_driver_changes_nothing": (
            REPLACED_DRIVER.on({"script": "claim_ack"}),
        ),
        "delay.test_claim_scripts.test_messages_that_left_are_not_deleted": (
            WHAT_LEFT,
            PUSHED_AGAIN,
        ),
        "delay.test_claim_scripts.test_a_claim_renewed_in_part_is_acked": (
            FROM_THE_FRONT,
            Mistake(
                "one stays",
                "redis.call('LTRIM', claim, 0, left - 1)",
                "redis.call('LTRIM', claim, 0, left)",
            ),
        ),
        "delay.test_claim_scripts.test_one_call_deletes_a_bounded_number_of_bytes": (
            Mistake("any number of bytes", "  if freed >= FREED then", "  if false then"),
        ),
        "delay.test_claim_scripts.test_an_ack_deletes_all_that_belongs_to_the_messages": (
            Mistake("the bodies stay", "  redis.call('HDEL', h, unpack(done))\n", ""),
            Mistake("the leases stay", "  redis.call('ZREM', leases, unpack(done))\n", ""),
            Mistake("the counts stay", "    redis.call('HDEL', receives, unpack(done))\n", ""),
            Mistake("the notes stay", "    redis.call('HDEL', errors, unpack(done))\n", ""),
            Mistake("the record stays", "  redis.call('HDEL', group, leased_until)\n", ""),
            Mistake("does not count", "count_up(1, 'acked', #done)", ""),
            Mistake(
                "the batch is open", "if up_to > tonumber(facts[2] or 0) then", "if false then"
            ),
        ),
        (
            "delay.test_claim_scripts.test_a_claim_that_is_being_returned_is_neither_ack"
            "ed_nor_renewed_nor_read"
        ): (Mistake("acks what is being returned", "if score == 0 then", "if false then"),),
        "delay.test_claim_scripts.test_a_claim_whose_list_is_gone_is_forgotten": (
            Mistake("a claim without a list stays", "  redis.call('ZREM', claims, claim)\n", ""),
        ),
    },
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
