"""The facts of claims/release.lua: see `tests.facts.facts`."""

from benchmarks.worst.claims import OPEN, claimed
from benchmarks.worst.scene import Act, Scene
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts

FACTS = Facts(
    "claims/release",
    calls=((3,),),
    fewest=1,
    refused={"1001": (3, *["list"] * 1001)},
)


@FACTS.worst("1,000 claims of 11,000 held lists")
def release(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return claimed(scene, OPEN, batches=OPEN).release
