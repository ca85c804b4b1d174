"""The facts of claims/begin.lua: see `tests.facts.facts`."""

from benchmarks.worst.claims import OPEN, claimed
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "claims/begin",
    calls=((),),
    mistakes=r"""
test_claims.test_each_driver_has_an_epoch_of_its_own
  the epoch of the last driver once more
  - redis.call('HINCRBY', group, 'epoch', 1)
  + tonumber(redis.call('HGET', group, 'epoch') or 1)
""",
)


@FACTS.worst("1,000 claims open")
def begin(scene: Scene) -> Act:
    return times(50, claimed(scene, OPEN, batches=OPEN).begin)
