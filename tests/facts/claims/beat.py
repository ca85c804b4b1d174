"""The facts of claims/beat.lua: see `tests.facts.facts`."""

from benchmarks.worst.claims import OPEN, claimed
from benchmarks.worst.scene import Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "claims/beat",
    calls=((3, 60 * SECOND),),
    fewest=2,
    refused={"1001": (3, SECOND, *["list"] * 1001)},
)


@FACTS.worst("1,000 claims of 11,000 held lists")
def beat(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(20, claimed(scene, OPEN, batches=OPEN).beat)
