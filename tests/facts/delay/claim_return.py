"""The facts of delay/claim_return.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import RECEIVES, beside, claimed
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/claim_return",
    calls=((1,),),
    fewest=1,
    mistakes=r"""
delay.test_claim_scripts.test_a_claim_renewed_in_part_is_returned
  a step begins at the front
""",
)


@FACTS.worst("100,000 of 1,000,000, with counts")
def claim_return(scene: Scene) -> Act:
    count = beside(scene)
    claims = claimed(scene, count)
    scene.fill("redis.call('HSET', KEYS[1], id, 3)", (RECEIVES,), count)
    return claims.release
