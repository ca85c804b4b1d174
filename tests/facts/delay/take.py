"""The facts of delay/take.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import (
    ERRORS,
    EXTENDED,
    LEASES,
    PARTITIONS,
    RECEIVES,
    H,
    Z,
    of,
    partitioned,
    spread,
    stored,
    taken,
)
from benchmarks.worst.scene import LARGE, MIB, NAME, Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.failures import RECEIVES as FAILED_RECEIVES
from tests.facts.failures import note_failures, with_failures

FACTS = Facts(
    "delay/take",
    calls=(("", 0, 1, 1, 0, 0),),
    fewest=6,
)


@FACTS.worst("1,000,000 ready since one time")
def take(scene: Scene) -> Act:
    stored(scene, scene.many(1_000_000))
    queue = of(scene)
    return times(100, lambda: queue.take(1000))


@FACTS.worst("1,000,000 whose leases ended, with counts")
def take_back(scene: Scene) -> Act:
    count = scene.many(1_000_000)
    line = """redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)
      redis.call('ZADD', KEYS[3], 1000000, id) redis.call('HSET', KEYS[4], id, 3)
      redis.call('HSET', KEYS[5], id, '999000:1000000')"""
    scene.fill(line, (Z, H, LEASES, RECEIVES, EXTENDED), count)
    queue = of(scene)
    return times(100, lambda: queue.take(1000))


@FACTS.worst("1,024 partitions, all with ready messages")
def take_spread(scene: Scene) -> Act:
    spread(scene, scene.many(100_000))
    queue = partitioned(scene)
    return times(50, lambda: queue.take(1000))


@FACTS.worst("1,024 partitions, all empty")
def take_nothing(scene: Scene) -> Act:
    queue = partitioned(scene)
    queue.join()
    return times(50, lambda: queue.take(1000))


@FACTS.worst("1,024 partitions, leases without messages")
def take_swept(scene: Scene) -> Act:
    line = f"redis.call('ZADD', KEYS[1] .. n % {PARTITIONS} .. ':leases', 1, id)"
    scene.fill(line, (f"{NAME}:".encode(),), scene.many(100_000))
    queue = partitioned(scene)
    return times(20, lambda: queue.take(1000))


@FACTS.worst("1,024 partitions, notes of failures without messages")
def take_notes(scene: Scene) -> Act:
    line = f"redis.call('HSET', KEYS[1] .. n % {PARTITIONS} .. ':errors', id, body)"
    scene.fill(line, (f"{NAME}:".encode(),), scene.many(100_000))
    queue = partitioned(scene)
    return times(20, lambda: queue.take(1000))


@FACTS.worst("16 x 32 MiB, by a stranger", count=16, size=32 * MIB, calls=16)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE, calls=100)
def take_large(scene: Scene, count: int, size: int, calls: int) -> Act:
    stored(scene, count, scene.size(size))
    queue = of(scene)
    return times(calls, lambda: queue.take(1000))


@FACTS.worst("1,000 x 0.9 MiB to the dead letters")
def take_dying(scene: Scene) -> Act:
    stored(scene, 1000, scene.size(LARGE))
    scene.fill("redis.call('HSET', KEYS[1], id, 5)", (RECEIVES,), 1000)
    queue = of(scene, max_receives=5)
    return lambda: queue.take(1000)


@with_failures(FACTS, "100 to the dead letters")
def take_dying_with_failures(scene: Scene, failure: bytes) -> Act:
    stored(scene, 100)
    note_failures(scene, ERRORS, RECEIVES, 100, failure)
    queue = of(scene, max_receives=FAILED_RECEIVES)
    return lambda: queue.take(1000)


@FACTS.worst("100,000 that others made ready under a lease")
def take_leased(scene: Scene) -> Act:
    count = scene.many(100_000)
    taken(scene, count)
    scene.fill("redis.call('ZADD', KEYS[1], 1, id)", (Z,), count)
    queue = of(scene)
    return lambda: queue.take(1000)
