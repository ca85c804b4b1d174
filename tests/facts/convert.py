"""The facts of convert.lua: see `tests.facts.facts`."""

from ackq.ops.doctor import convert
from benchmarks.worst.scene import NAME, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts("convert", calls=((0,),), changes_nothing=True, fewest=1)


@FACTS.worst("1,000,000 in flight")
def convert_busy(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000), score=1, step=1)
    return lambda: convert(scene.client, NAME)
