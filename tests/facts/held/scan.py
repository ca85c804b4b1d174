"""The facts of held/scan.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts

FACTS = Facts(
    "held/scan",
    calls=((0, "right"),),
    changes_nothing=True,
    fewest=2,
    refused={"cursor": ("x", "right")},
)


@FACTS.worst("10,000 held lists")
def scan(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(5, scene.queue().claims)
