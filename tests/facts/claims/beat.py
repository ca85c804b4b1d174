"""The facts of claims/beat.lua: see `tests.facts.facts`."""

from ackq.queue import claims
from benchmarks.worst.claims import OPEN, claimed
from benchmarks.worst.scene import Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.example import CLAIM, group
from tests.facts.facts import Facts
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "claims/beat",
    calls=((3, 60 * SECOND),),
    operation=lambda: claims.beat(group()),
    replies=[[b"ok", 1]],
    passes={"epoch": [3], "timeout": [8_000_000], "claims": [CLAIM]},
    fewest=2,
    refused={"1001": (3, SECOND, *["list"] * 1001)},
    mistakes=r"""
test_claims.test_nothing_is_changed_for_a_driver_that_does_not_have_the_group
  given: script="claims/beat", args=(3600000000,), epoch=2
  no fence
  - if current ~= epoch then
  + if false then
test_claims.test_a_beat_renews_the_leases_and_the_oldest_ends_last
  renews what is being given back
  - if tonumber(redis.call('ZSCORE', held, ARGV[i]) or 0) > 0 then
  + if redis.call('ZSCORE', held, ARGV[i]) then
  the oldest ends first
  - now + timeout + i - claims)
  + now + timeout - i + claims)
test_claims.test_a_full_server_can_be_claimed_from
  frees nothing first (error)
  - redis.call('ZREMRANGEBYRANK', held, 1, 0)
""",
)


@FACTS.worst("1,000 claims of 11,000 held lists")
def beat(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(20, claimed(scene, OPEN, batches=OPEN).beat)
