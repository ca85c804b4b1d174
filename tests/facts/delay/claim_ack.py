"""The facts of delay/claim_ack.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import RECEIVES, beside, claimed
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/claim_ack",
    calls=((1, 1, 1),),
    fewest=3,
    mistakes=r"""
delay.test_claim_scripts.test_a_claim_renewed_in_part_is_acked
  a step begins at the front
""",
)


@FACTS.worst("100,000 of 1,000,000, with counts")
def claim_ack(scene: Scene) -> Act:
    count = beside(scene)
    claims = claimed(scene, count)
    scene.fill("redis.call('HSET', KEYS[1], id, 3)", (RECEIVES,), count)
    return lambda: claims.ack(1)


@FACTS.worst("1,000 x 0.9 MiB")
def claim_ack_large(scene: Scene) -> Act:
    claims = claimed(scene, 1000, scene.size(LARGE))
    return lambda: claims.ack(1)
