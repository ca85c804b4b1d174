"""The facts of claims/release.lua: see `tests.facts.facts`."""

from ackq.queue import claims
from benchmarks.worst.claims import OPEN, claimed
from benchmarks.worst.scene import Act, Scene
from benchmarks.worst.taking import hold_lists
from tests.facts.example import CLAIM, group
from tests.facts.facts import Facts

FACTS = Facts(
    "claims/release",
    calls=((3,),),
    operation=lambda: claims.release(group()),
    replies=[[b"ok", 5]] * 2,
    passes={"epoch": [3], "claims": [CLAIM]},
    fewest=1,
    refused={"1001": (3, *["list"] * 1001)},
    mistakes=r"""
test_claims.test_nothing_is_changed_for_a_driver_that_does_not_have_the_group
  given: script="claims/release", args=(), epoch=2
  no fence
  - if epoch > 0 and epoch ~= current and not again then
  + if false then
test_claims.test_a_release_ends_the_leases_and_fences_the_driver
  given: epoch=3
  the driver goes on
  - current = redis.call('HINCRBY', group, 'epoch', 1)
  + current = current + 1
  holds what was not held
  - redis.call('ZADD', held, 'XX', '0', ARGV[i])
  + redis.call('ZADD', held, '0', ARGV[i])
test_claims.test_a_release_may_be_sent_again_but_not_after_another_driver_began
  a resent release is refused
  - tonumber(facts[2] or 0) == epoch and current == epoch + 1
  + false
  a resent release ends the claims of the next driver
  - tonumber(facts[2] or 0) == epoch and current == epoch + 1
  + tonumber(facts[2] or 0) == epoch
test_claims.test_a_full_server_gives_claims_back
  frees nothing first (error)
  - redis.call('HDEL', group, 'claiming')
""",
)


@FACTS.worst("1,000 claims of 11,000 held lists")
def release(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return claimed(scene, OPEN, batches=OPEN).release
