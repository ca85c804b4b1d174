"""Delay queues, plain and partitioned."""

from __future__ import annotations

from ackq.delay import (
    DelayClaims,
    DelayedMessage,
    DelayEntry,
    DelayQueue,
    PartitionedDelayQueue,
)
from benchmarks.worst.case import Act, times, worst
from benchmarks.worst.failures import RECEIVES as FAILED_RECEIVES
from benchmarks.worst.failures import dead_with_failures, note_failures, with_failures
from benchmarks.worst.scene import DEAD, KIB, LARGE, LEASED, MIB, NAME, Scene

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


@worst("delay/push", "1,000 x 0.9 MiB")
def push_large(scene: Scene) -> Act:
    queue, text = of(scene), b"x" * scene.size(LARGE)
    return lambda: queue.push_many(DelayEntry(f"m{n}", text, delay=60) for n in range(1000))


@worst("delay/push", "100,000 into 1,024 partitions")
def push_spread(scene: Scene) -> Act:
    queue, count = partitioned(scene), scene.many(100_000)
    return lambda: queue.push_many(DelayEntry(f"m{n}", b"x", delay=60) for n in range(count))


@worst("delay/push", "100,000 beside 1,000,000, one time for all")
def push_deep(scene: Scene) -> Act:
    stored(scene, scene.many(1_000_000), score=8e9)
    queue, count = of(scene), scene.many(100_000)
    return lambda: queue.push_many(DelayEntry(f"n{n}", b"x", at=8e9) for n in range(count))


@worst("delay/take", "1,000,000 ready since one time")
def take(scene: Scene) -> Act:
    stored(scene, scene.many(1_000_000))
    queue = of(scene)
    return times(100, lambda: queue.take(1000))


@worst("delay/take", "1,000,000 whose leases ended, with counts")
def take_back(scene: Scene) -> Act:
    count = scene.many(1_000_000)
    line = """redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)
      redis.call('ZADD', KEYS[3], 1000000, id) redis.call('HSET', KEYS[4], id, 3)
      redis.call('HSET', KEYS[5], id, '999000:1000000')"""
    scene.fill(line, (Z, H, LEASES, RECEIVES, EXTENDED), count)
    queue = of(scene)
    return times(100, lambda: queue.take(1000))


@worst("delay/take", "1,024 partitions, all with ready messages")
def take_spread(scene: Scene) -> Act:
    spread(scene, scene.many(100_000))
    queue = partitioned(scene)
    return times(50, lambda: queue.take(1000))


@worst("delay/take", "1,024 partitions, all empty")
def take_nothing(scene: Scene) -> Act:
    queue = partitioned(scene)
    queue.join()
    return times(50, lambda: queue.take(1000))


@worst("delay/take", "1,024 partitions, leases without messages")
def take_swept(scene: Scene) -> Act:
    line = f"redis.call('ZADD', KEYS[1] .. n % {PARTITIONS} .. ':leases', 1, id)"
    scene.fill(line, (f"{NAME}:".encode(),), scene.many(100_000))
    queue = partitioned(scene)
    return times(20, lambda: queue.take(1000))


@worst("delay/take", "1,024 partitions, notes of failures without messages")
def take_notes(scene: Scene) -> Act:
    line = f"redis.call('HSET', KEYS[1] .. n % {PARTITIONS} .. ':errors', id, body)"
    scene.fill(line, (f"{NAME}:".encode(),), scene.many(100_000))
    queue = partitioned(scene)
    return times(20, lambda: queue.take(1000))


@worst("delay/take", "1,000 x 0.9 MiB")
def take_large(scene: Scene) -> Act:
    stored(scene, 1000, scene.size(LARGE))
    queue = of(scene)
    return times(100, lambda: queue.take(1000))


@worst("delay/take", "16 x 32 MiB, by a stranger")
def take_larger(scene: Scene) -> Act:
    stored(scene, 16, scene.size(32 * MIB))
    queue = of(scene)
    return times(16, lambda: queue.take(1000))


@worst("delay/take", "1,000 x 0.9 MiB to the dead letters")
def take_dying(scene: Scene) -> Act:
    stored(scene, 1000, scene.size(LARGE))
    scene.fill("redis.call('HSET', KEYS[1], id, 5)", (RECEIVES,), 1000)
    queue = of(scene, max_receives=5)
    return lambda: queue.take(1000)


@with_failures("delay/take", "100 to the dead letters")
def take_dying_with_failures(scene: Scene, failure: bytes) -> Act:
    stored(scene, 100)
    note_failures(scene, ERRORS, RECEIVES, 100, failure)
    queue = of(scene, max_receives=FAILED_RECEIVES)
    return lambda: queue.take(1000)


@worst("delay/take", "100,000 that others made ready under a lease")
def take_leased(scene: Scene) -> Act:
    count = scene.many(100_000)
    taken(scene, count)
    scene.fill("redis.call('ZADD', KEYS[1], 1, id)", (Z,), count)
    queue = of(scene)
    return lambda: queue.take(1000)


@worst("delay/delete", "1,000 x 0.9 MiB")
def delete_large(scene: Scene) -> Act:
    held, queue = taken(scene, 1000, scene.size(LARGE)), of(scene)
    return lambda: queue.delete(*held)


@worst("delay/delete", "100,000 of 1,000,000, extended")
def delete_deep(scene: Scene) -> Act:
    held = taken(scene, scene.many(1_000_000), receives=3)[: scene.many(100_000)]
    queue = of(scene)
    queue.extend(*held, timeout=3600)
    return lambda: queue.delete(*held)


@worst("delay/extend", "100,000 of 1,000,000, one time for all")
def extend(scene: Scene) -> Act:
    held, queue = taken(scene, scene.many(1_000_000))[: scene.many(100_000)], of(scene)
    return lambda: queue.extend(*held, timeout=3600)


@worst("delay/nack", "1,000 x 0.9 MiB")
def nack_large(scene: Scene) -> Act:
    held, queue = taken(scene, 1000, scene.size(LARGE)), of(scene)
    return lambda: queue.nack(*held)


@worst("delay/nack", "100,000 of 1,000,000 released")
def release(scene: Scene) -> Act:
    held = taken(scene, scene.many(1_000_000), receives=3)[: scene.many(100_000)]
    queue = of(scene)
    return lambda: queue.release(*held)


@worst("delay/nack", "1,000 x 0.9 MiB to the dead letters")
def nack_dying(scene: Scene) -> Act:
    held, queue = taken(scene, 1000, scene.size(LARGE), receives=5), of(scene, max_receives=5)
    return lambda: queue.nack(*held)


@worst("delay/nack", "1,000 x 100 KiB, with errors of 8 KiB and notes of 40 KiB")
def nack_failed(scene: Scene) -> Act:
    held, queue = taken(scene, 1000, scene.size(100 * KIB), receives=6), of(scene)
    line = """redis.call('HSET', KEYS[1], id, #body .. ':'
      .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
      .. string.rep('\\n1:1:' .. string.rep('x', 8000), 5))"""
    scene.fill(line, (ERRORS,), 1000, scene.size(100 * KIB))
    for each in held:
        each.failure = b"x" * 8000
    return lambda: queue.nack(*held, delay=60)


@with_failures("delay/nack", "100 that die")
def nack_dying_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = _failed(scene, failure), of(scene, max_receives=FAILED_RECEIVES)
    return lambda: queue.nack(*held)


@with_failures("delay/nack", "100 that return")
def nack_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = _failed(scene, failure), of(scene)
    return lambda: queue.nack(*held)


@with_failures("delay/reject", "100")
def reject_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = _failed(scene, failure), of(scene)
    return lambda: queue.reject(*held)


def _failed(scene: Scene, failure: bytes) -> list[DelayedMessage]:
    """Return 100 messages with five noted failures, whose handlers failed once more."""
    held = taken(scene, 100)
    note_failures(scene, ERRORS, RECEIVES, 100, failure)
    for message in held:
        message.failure = failure
    return held


@worst("delay/reject", "1,000 x 0.9 MiB")
def reject_large(scene: Scene) -> Act:
    held, queue = taken(scene, 1000, scene.size(LARGE)), of(scene)
    return lambda: queue.reject(*held)


@worst("delay/reject", "16 x 32 MiB")
def reject_larger(scene: Scene) -> Act:
    held, queue = taken(scene, 16, scene.size(32 * MIB)), of(scene)
    return lambda: queue.reject(*held)


@worst("delay/cancel", "1,000 x 0.9 MiB")
def cancel_large(scene: Scene) -> Act:
    stored(scene, 1000, scene.size(LARGE))
    queue = of(scene)
    return lambda: queue.cancel(*(f"m{n:07d}" for n in range(1, 1001)))


@worst("delay/cancel", "100,000 in 1,024 partitions")
def cancel_spread(scene: Scene) -> Act:
    queue, count = partitioned(scene), scene.many(100_000)
    queue.push_many(DelayEntry(f"m{n}", b"x", delay=60) for n in range(count))
    return lambda: queue.cancel(*(f"m{n}" for n in range(count)))


@worst("delay/reschedule", "one of 3,000,000, one time for all")
def reschedule(scene: Scene) -> Act:
    stored(scene, scene.many(3_000_000), score=8e9)
    queue = of(scene)
    return times(50, lambda: queue.reschedule("m0000001", delay=60))


@worst("delay/stats", "1,024 partitions")
def stats(scene: Scene) -> Act:
    spread(scene, scene.many(300_000))
    return times(20, partitioned(scene).stats)


@worst("delay/peek", "1,000,000, one time for all, page by page")
def peek(scene: Scene) -> Act:
    stored(scene, scene.many(1_000_000))
    queue = of(scene)
    return lambda: queue.peek(min(100_000, scene.many(1_000_000)))


@worst("delay/peek", "64 x 0.9 MiB")
def peek_large(scene: Scene) -> Act:
    stored(scene, 64, scene.size(LARGE))
    queue = of(scene)
    return lambda: queue.peek(64)


@worst("delay/peek", "16 x 32 MiB, by a stranger")
def peek_larger(scene: Scene) -> Act:
    stored(scene, 16, scene.size(32 * MIB))
    queue = of(scene)
    return lambda: queue.peek(16)


@worst("delay/purge", "1,000,000 in 1,024 partitions")
def purge(scene: Scene) -> Act:
    spread(scene, scene.many(1_000_000))
    queue = partitioned(scene)
    return lambda: queue.purge(dead=True)


@worst("delay/redrive", "300,000 dead letters")
def redrive(scene: Scene) -> Act:
    scene.fill(DEAD, (STREAM,), scene.many(300_000))
    return of(scene).redrive


@worst("delay/redrive", "1,000 x 0.9 MiB")
def redrive_large(scene: Scene) -> Act:
    scene.fill(DEAD, (STREAM,), 1000, scene.size(LARGE))
    return of(scene).redrive


@worst("delay/redrive", "16 x 64 MiB")
def redrive_larger(scene: Scene) -> Act:
    scene.fill(DEAD, (STREAM,), 16, scene.size(64 * MIB))
    return of(scene).redrive


@with_failures("delay/redrive", "100")
def redrive_with_failures(scene: Scene, failure: bytes) -> Act:
    dead_with_failures(scene, STREAM, 100, failure)
    return of(scene).redrive


@worst("delay/watch", "1,024 partitions")
def watch(scene: Scene) -> Act:
    spread(scene, scene.many(100_000))
    return times(20, partitioned(scene).counters)


@worst("delay/drop", "10,000 dead letters")
def drop(scene: Scene) -> Act:
    scene.fill(DEAD, (STREAM,), scene.many(10_000), 10 * KIB)
    queue = of(scene)
    entries = [each.entry for each in queue.dead_letters(10_000)]
    return lambda: queue.drop_dead_letters(*entries)


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


@worst("delay/claim", "100,000 of 1,000,000, ready since one time")
def claim(scene: Scene) -> Act:
    stored(scene, scene.many(1_000_000))
    claims, count = claiming(scene), scene.many(100_000)
    return lambda: claims.claim(0, messages=count)


@worst("delay/claim", "100,000 whose leases ended, with counts")
def claim_back(scene: Scene) -> Act:
    count = scene.many(100_000)
    line = """redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)
      redis.call('ZADD', KEYS[3], 1000000, id) redis.call('HSET', KEYS[4], id, 3)
      redis.call('HSET', KEYS[5], id, '999000:1000000')"""
    scene.fill(line, (Z, H, LEASES, RECEIVES, EXTENDED), count)
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=count)


@worst("delay/claim", "100,000 that others made ready under a lease")
def claim_leased(scene: Scene) -> Act:
    count = scene.many(100_000)
    taken(scene, count)
    scene.fill("redis.call('ZADD', KEYS[1], 1, id)", (Z,), count)
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=count)


@worst("delay/claim", "100,000 without bodies")
def claim_without_bodies(scene: Scene) -> Act:
    count = scene.many(100_000)
    scene.fill("redis.call('ZADD', KEYS[1], 1, id)", (Z,), count)
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=count)


@worst("delay/claim", "16 x 32 MiB, by a stranger")
def claim_larger(scene: Scene) -> Act:
    stored(scene, 16, scene.size(32 * MIB))
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=16)


@worst("delay/claim_beat", "100,000 of 1,000,000")
def claim_beat(scene: Scene) -> Act:
    count = beside(scene)
    short = claimed(scene, count, timeout=60)
    long = scene.own(DelayClaims(scene.client, NAME, "group"))
    long.adopt(short.epoch)
    return long.beat


@worst("delay/claim_ack", "100,000 of 1,000,000, with counts")
def claim_ack(scene: Scene) -> Act:
    count = beside(scene)
    claims = claimed(scene, count)
    scene.fill("redis.call('HSET', KEYS[1], id, 3)", (RECEIVES,), count)
    return lambda: claims.ack(1)


@worst("delay/claim_ack", "1,000 x 0.9 MiB")
def claim_ack_large(scene: Scene) -> Act:
    claims = claimed(scene, 1000, scene.size(LARGE))
    return lambda: claims.ack(1)


@worst("delay/claim_return", "100,000 of 1,000,000, with counts")
def claim_return(scene: Scene) -> Act:
    count = beside(scene)
    claims = claimed(scene, count)
    scene.fill("redis.call('HSET', KEYS[1], id, 3)", (RECEIVES,), count)
    return claims.release


@worst("delay/claim_read", "100,000 of 1,000,000")
def claim_read(scene: Scene) -> Act:
    count = beside(scene)
    return _reading(claimed(scene, count), count)


@worst("delay/claim_read", "64 x 0.9 MiB")
def claim_read_large(scene: Scene) -> Act:
    return _reading(claimed(scene, 64, scene.size(LARGE)), 64)


@worst("delay/claim_read", "16 x 32 MiB, by a stranger")
def claim_read_larger(scene: Scene) -> Act:
    return _reading(claimed(scene, 16, scene.size(32 * MIB)), 16)


def _reading(claims: DelayClaims, count: int) -> Act:
    def read() -> None:
        at = 0
        while at < count:
            at += len(claims.read(1, at, count - at))

    return read
