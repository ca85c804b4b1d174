"""Delay queues, plain and partitioned."""

from ackq.delay import DelayClaims, DelayedMessage, DelayQueue, PartitionedDelayQueue
from benchmarks.worst.scene import LEASED, NAME, Scene
from tests.facts.failures import note_failures

#: The most partitions that there may be.
PARTITIONS = 1024


Z, H, LEASES, EXTENDED, RECEIVES, STREAM, ERRORS = (
    f"{NAME}:{part}".encode()
    for part in ("z", "h", "leases", "extended", "receives", "dead", "errors")
)


def of(scene: Scene, **settings: object) -> DelayQueue:
    """Return a delay queue without partitions."""
    return scene.own(DelayQueue(scene.client, NAME, **settings))  # type: ignore[arg-type]


def partitioned(scene: Scene) -> PartitionedDelayQueue:
    """Return a delay queue with the most partitions allowed."""
    return scene.own(PartitionedDelayQueue(scene.client, NAME, PARTITIONS))


def stored(scene: Scene, count: int, size: int = 100, score: float = 1, step: float = 0) -> None:
    """Store messages; by default all are due, since the same time."""
    scene.fill(LEASED, (Z, H), count, size, score, step)


def spread(scene: Scene, count: int) -> None:
    """Store ready messages in all partitions."""
    line = f"""local part = KEYS[1] .. n % {PARTITIONS}
      redis.call('ZADD', part .. ':z', 1, id) redis.call('HSET', part .. ':h', id, body)"""
    scene.fill(line, (f"{NAME}:".encode(),), count)


def taken(scene: Scene, count: int, size: int = 100, receives: int = 0) -> list[DelayedMessage]:
    """Lease messages for a long time, and return them as their consumer has them."""
    line = f"""redis.call('ZADD', KEYS[1], string.format('%.6f', score / 1000000), id)
      redis.call('HSET', KEYS[2], id, body) redis.call('ZADD', KEYS[3], score, id)
      if {receives} > 0 then redis.call('HSET', KEYS[4], id, {receives}) end"""
    scene.fill(line, (Z, H, LEASES, RECEIVES), count, size, scene.far)
    body = bytes(size)
    return [DelayedMessage(NAME, f"m{n:07d}", body, receipt=scene.far) for n in range(1, count + 1)]


def failed(scene: Scene, failure: bytes) -> list[DelayedMessage]:
    """Return 100 messages with five noted failures, whose handlers failed once more."""
    held = taken(scene, 100)
    note_failures(scene, ERRORS, RECEIVES, 100, failure)
    for message in held:
        message.failure = failure
    return held


def claiming(scene: Scene, **settings: float) -> DelayClaims:
    """Return claims that have begun, so that they are their group's driver."""
    claims = scene.own(DelayClaims(scene.client, NAME, "group", **settings))
    claims.begin()
    return claims


def claimed(scene: Scene, count: int, size: int = 100, timeout: float = 604_800.0) -> DelayClaims:
    """Return a group that has claimed messages of a larger queue."""
    stored(scene, count, size)
    claims = claiming(scene, timeout=timeout)
    claims.claim(0, messages=count)
    return claims


def beside(scene: Scene) -> int:
    """Store a million messages that are not ready; return how many messages to claim."""
    count = scene.many(1_000_000)
    scene.fill(LEASED, (Z, H), count, 100, 8e9, first=2_000_000)
    return scene.many(100_000)
