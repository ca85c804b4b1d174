"""The facts of claims/ack.lua: see `tests.facts.facts`."""

from ackq.queue import claims
from benchmarks.worst.claims import OPEN, claimed
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.example import group
from tests.facts.facts import Facts

FACTS = Facts(
    "claims/ack",
    calls=(
        (3, 2, 600_000),
        (3, 2, 0),
    ),
    operation=lambda: claims.ack(group(), 1, 9.0),
    replies=[[b"ok", 1]],
    passes={"epoch": [3], "batch": [1], "keep": [9000]},
    fewest=3,
    mistakes=r"""
test_claims.test_nothing_is_changed_for_a_driver_that_does_not_have_the_group
  given: script="claims/ack", args=(1, 1000), epoch=2
  a replaced driver goes on
test_claims.test_an_acked_claim_is_kept_for_a_while_and_held_no_more
  keeps what was acked for ever
  - redis.call('PEXPIRE', claim, string.format('%.0f', keep))
  + redis.call('EXISTS', claim)
  leaves the row count
  - redis.call('HDEL', heldrows, claim)
test_claims.test_a_claim_that_is_being_given_back_cannot_be_acked
  acks what is being given back
  - if score > 0 then
  + if redis.call('ZSCORE', held, claim) then
test_claims.test_an_ack_may_be_repeated
  the highest ack can sink
  - if batch > tonumber(facts[2] or 0) then
  + if true then
test_claims.test_counters_that_cannot_count_stop_nothing
  given: field="taken"
  counts into what is somebody else's
test_claims.test_a_full_server_can_be_claimed_from
  frees nothing first (error)
  - redis.call('ZREMRANGEBYRANK', held, 1, 0)
""",
)


@FACTS.worst("3,000,000 kept")
def ack_kept(scene: Scene) -> Act:
    claims = claimed(scene, scene.many(3_000_000))
    return lambda: claims.ack(1)


@FACTS.worst("3,000,000 deleted")
def ack_deleted(scene: Scene) -> Act:
    claims = claimed(scene, scene.many(3_000_000))
    return lambda: claims.ack(1, keep=0)


@FACTS.worst("1,000 claims")
def ack_many(scene: Scene) -> Act:
    claims = claimed(scene, OPEN, batches=OPEN)
    return lambda: claims.ack(OPEN)


@FACTS.worst("1,000 x 0.9 MiB deleted")
def ack_large(scene: Scene) -> Act:
    claims = claimed(scene, 1000, scene.size(LARGE))
    return lambda: claims.ack(1, keep=0)
