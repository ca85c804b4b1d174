"""The facts of delay/claim_return.lua: see `tests.facts.facts`."""

from __future__ import annotations

from benchmarks.worst.delay import RECEIVES, beside, claimed
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts, Mistake
from tests.facts.parts import FROM_THE_FRONT, PUSHED_AGAIN, WHAT_LEFT

FACTS = Facts(
    "delay/claim_return",
    calls=((1,),),
    fewest=1,
    mistakes={
        "delay.test_claim_scripts.test_only_a_released_claim_is_returned": (
            Mistake(
                "returns a running claim",
                "if tonumber(redis.call('ZSCORE', claims, claim) or 1) ~= 0 then",
                "if false then",
            ),
        ),
        "delay.test_claim_scripts.test_messages_that_left_are_not_returned": (
            WHAT_LEFT,
            PUSHED_AGAIN,
        ),
        "delay.test_claim_scripts.test_a_claim_renewed_in_part_is_returned": (FROM_THE_FRONT,),
        "delay.test_claim_scripts.test_a_returned_message_is_ready_since_its_former_time": (
            Mistake(
                "the delivery counts",
                "local count = tonumber(counts[i] or 1) - 1",
                "local count = tonumber(counts[i] or 1)",
            ),
            Mistake("the lease stays", "    redis.call('ZREM', leases, key)\n", ""),
            Mistake("they lose their order", "'XX', times[i], key)", "'XX', '5', key)"),
            Mistake("nobody wakes", "  redis.call('LPUSH', wake, '1')\n", ""),
            Mistake(
                "the note of a message without a count stays",
                "      redis.call('HDEL', errors, key)\n",
                "",
            ),
        ),
        "delay.test_claim_scripts.test_counts_go_on": (
            Mistake("does not count", "count_up(1, 'released', returned)", ""),
        ),
    },
)


@FACTS.worst("100,000 of 1,000,000, with counts")
def claim_return(scene: Scene) -> Act:
    count = beside(scene)
    claims = claimed(scene, count)
    scene.fill("redis.call('HSET', KEYS[1], id, 3)", (RECEIVES,), count)
    return claims.release
