"""The facts of claims/ack.lua: see `tests.facts.facts`."""

from benchmarks.worst.claims import OPEN, claimed
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "claims/ack",
    calls=(
        (3, 2, 600_000),
        (3, 2, 0),
    ),
    fewest=3,
    mistakes=r"""
test_claims.test_counters_that_cannot_count_stop_nothing
  given: field="taken"
  counts into what is somebody else's
""",
)


@FACTS.worst("3,000,000 kept")
def ack_kept(scene: Scene) -> Act:
    claims = claimed(scene, scene.many(3_000_000))
    return lambda: claims.ack(1)


@FACTS.worst("3,000,000 deleted")
def ack_deleted(scene: Scene) -> Act:
    claims = claimed(scene, scene.many(3_000_000))
    return lambda: claims.ack(1, keep=0)


@FACTS.worst("1,000 claims")
def ack_many(scene: Scene) -> Act:
    claims = claimed(scene, OPEN, batches=OPEN)
    return lambda: claims.ack(OPEN)


@FACTS.worst("1,000 x 0.9 MiB deleted")
def ack_large(scene: Scene) -> Act:
    claims = claimed(scene, 1000, scene.size(LARGE))
    return lambda: claims.ack(1, keep=0)
