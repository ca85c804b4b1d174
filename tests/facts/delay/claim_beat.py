"""The facts of delay/claim_beat.lua: see `tests.facts.facts`."""

from ackq.delay import DelayClaims
from benchmarks.worst.delay import beside, claimed
from benchmarks.worst.scene import NAME, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "delay/claim_beat",
    calls=((1, 1, 3600 * SECOND),),
    fewest=3,
)


@FACTS.worst("100,000 of 1,000,000")
def claim_beat(scene: Scene) -> Act:
    count = beside(scene)
    short = claimed(scene, count, timeout=60)
    long = scene.own(DelayClaims(scene.client, NAME, "group"))
    long.adopt(short.epoch)
    return long.beat
