"""The facts of claims/forget.lua: see `tests.facts.facts`."""

from ackq.queue import claims
from benchmarks.worst.claims import claimed
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.example import group
from tests.facts.facts import Facts

FACTS = Facts(
    "claims/forget",
    calls=((3, 2),),
    operation=lambda: claims.forget(group(), 1),
    replies=[[b"ok", 1]],
    passes={"epoch": [3], "batch": [1]},
    fewest=2,
    mistakes=r"""
test_claims.test_nothing_is_changed_for_a_driver_that_does_not_have_the_group
  given: script="claims/forget", args=(1,), epoch=2
  a replaced driver goes on
test_claims.test_a_kept_claim_is_deleted_and_one_that_is_held_is_not
  deletes what is held
  - redis.call('ZSCORE', held, claim) and 0 or
  + false and 0 or
test_claims.test_what_was_forgotten_last_cannot_sink
  the highest that was forgotten can sink
  - if batch > tonumber(facts[2] or 0) then
  + if true then
test_claims.test_a_full_server_can_be_claimed_from
  frees nothing first (error)
  - redis.call('ZREMRANGEBYRANK', held, 1, 0)
""",
)


@FACTS.worst("3,000,000 messages")
def forget(scene: Scene) -> Act:
    claims = claimed(scene, scene.many(3_000_000))
    claims.ack(1)
    return lambda: claims.forget(1)


@FACTS.worst("1,000 x 0.9 MiB")
def forget_large(scene: Scene) -> Act:
    claims = claimed(scene, 1000, scene.size(LARGE))
    claims.ack(1)
    return lambda: claims.forget(1)
