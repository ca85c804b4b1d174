"""The facts of claims/claim.lua: see `tests.facts.facts`."""

from benchmarks.worst.claims import begun
from benchmarks.worst.scene import KIB, LARGE, MIB, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "claims/claim",
    calls=(
        (3, 2, 1000, 0, 60 * SECOND, "right"),
        (3, 2, 1000, 50, 60 * SECOND, "right"),
    ),
    fewest=6,
    mistakes=r"""
test_claims.test_counters_that_cannot_count_stop_nothing
  given: field="taken"
  counts into what is somebody else's
""",
)


@FACTS.worst("3,000,000 ready at once")
def claim_whole(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.ready(count)
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("300,000 of 3,000,000 ready")
def claim_part(scene: Scene) -> Act:
    scene.ready(scene.many(3_000_000))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=scene.many(300_000))


@FACTS.worst("300,000 x 4 KiB ready, and one more")
def claim_pages(scene: Scene) -> Act:
    count = scene.many(300_000)
    scene.ready(count + 1, scene.size(4 * KIB))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("300,000 expired and due")
def claim_back(scene: Scene) -> Act:
    scene.leased(scene.many(150_000))
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    keys = (scene.keys.delayed, scene.keys.context)
    scene.fill(line, keys, scene.many(150_000), first=200_000)
    claims = begun(scene)
    return lambda: claims.claim(0, messages=scene.many(300_000))


@FACTS.worst("16 x 32 MiB expired", count=16, size=32 * MIB)
@FACTS.worst("1,000 x 0.9 MiB expired", count=1000, size=LARGE)
def claim_large_expired(scene: Scene, count: int, size: int) -> Act:
    scene.leased(count, scene.size(size))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("16 x 32 MiB ready, and one more", count=16, size=32 * MIB)
@FACTS.worst("1,000 x 0.9 MiB ready, and one more", count=1000, size=LARGE)
def claim_ready(scene: Scene, count: int, size: int) -> Act:
    scene.ready(count + 1, scene.size(size))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("100,000 expired, their bodies missing")
def claim_without_bodies(scene: Scene) -> Act:
    line = "redis.call('ZADD', KEYS[1], 1, id)"
    scene.fill(line, (scene.keys.backup,), scene.many(100_000))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=scene.many(100_000))
