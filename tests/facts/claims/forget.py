"""The facts of claims/forget.lua: see `tests.facts.facts`."""

from benchmarks.worst.claims import claimed
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "claims/forget",
    calls=((3, 2),),
    fewest=2,
)


@FACTS.worst("3,000,000 messages")
def forget(scene: Scene) -> Act:
    claims = claimed(scene, scene.many(3_000_000))
    claims.ack(1)
    return lambda: claims.forget(1)


@FACTS.worst("1,000 x 0.9 MiB")
def forget_large(scene: Scene) -> Act:
    claims = claimed(scene, 1000, scene.size(LARGE))
    claims.ack(1)
    return lambda: claims.forget(1)
