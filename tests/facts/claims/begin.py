"""The facts of claims/begin.lua: see `tests.facts.facts`."""

from ackq.queue import claims
from benchmarks.worst.claims import OPEN, claimed
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.example import group
from tests.facts.facts import Facts

FACTS = Facts(
    "claims/begin",
    calls=((),),
    operation=lambda: claims.begin(group()),
    replies=[[4, 0, 0]],
    mistakes=r"""
test_claims.test_each_driver_has_an_epoch_of_its_own
  the epoch of the last driver once more
  - redis.call('HINCRBY', group, 'epoch', 1)
  + tonumber(redis.call('HGET', group, 'epoch') or 1)
test_claims.test_a_new_driver_does_not_go_on_with_the_claim_of_another
  goes on with the claim of another
  - redis.call('HDEL', group, 'claiming')
  + redis.call('HDEL', group, '')
""",
)


@FACTS.worst("1,000 claims open")
def begin(scene: Scene) -> Act:
    return times(50, claimed(scene, OPEN, batches=OPEN).begin)
