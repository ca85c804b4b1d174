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
    mistakes=r"""
delay.test_claim_scripts.test_leases_are_renewed_in_steps
  every step has a base of its own
  - if renewed == 0 then
  + base = now + timeout
  + if renewed == 0 then
  forgets how far it came
  - before, renewed))
  + before, 0))
  the next renewal takes the first ends for the last
  - before, renewed = base, 0
  + renewed = 0
""",
)


@FACTS.worst("100,000 of 1,000,000")
def claim_beat(scene: Scene) -> Act:
    count = beside(scene)
    short = claimed(scene, count, timeout=60)
    long = scene.own(DelayClaims(scene.client, NAME, "group"))
    long.adopt(short.epoch)
    return long.beat
