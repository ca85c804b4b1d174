"""The facts of claims/begin.lua: see `tests.facts.facts`."""

from benchmarks.worst.claims import OPEN, claimed
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "claims/begin",
    calls=((),),
)


@FACTS.worst("1,000 claims open")
def begin(scene: Scene) -> Act:
    return times(50, claimed(scene, OPEN, batches=OPEN).begin)
