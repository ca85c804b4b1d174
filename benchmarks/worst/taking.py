"""The list queue: pop."""

from __future__ import annotations

from ackq import Queue
from benchmarks.worst.case import Act, times, worst
from benchmarks.worst.failures import RECEIVES, note_failures, with_failures
from benchmarks.worst.scene import KIB, LARGE, LISTED, MIB, Scene

#: Calls of a case that has endless work.
CALLS = 100


def popping(queue: Queue, calls: int = CALLS) -> Act:
    """Return a function that pops ``calls`` times, a thousand messages each, and acks none."""
    return times(calls, lambda: queue.pop_many(1000))


@worst("pop", "equal ids, 1 x 0.9 MiB in flight")
def equal_ids(scene: Scene) -> Act:
    return _equal_ids(scene, LARGE)


@worst("pop", "equal ids, 1 x 16 MiB in flight")
def equal_longer_ids(scene: Scene) -> Act:
    return _equal_ids(scene, 16 * MIB)


def _equal_ids(scene: Scene, size: int) -> Act:
    scene.held(1, scene.size(size))
    scene.fill("for _ = 1, 1000 do redis.call('LPUSH', KEYS[1], body) end", (scene.keys.ready,), 1)
    return popping(scene.queue(), 1)


@worst("pop", "1,000 equal ids of 512 bytes")
def equal_long_ids(scene: Scene) -> Act:
    return _equal(scene, 512)


@worst("pop", "1,000 equal ids")
def equal_short_ids(scene: Scene) -> Act:
    return _equal(scene, 8)


def _equal(scene: Scene, length: int) -> Act:
    line = f"redis.call('LPUSH', KEYS[1], '{{\"id\":\"' .. string.rep('i', {length}) .. '\"}}')"
    scene.fill(line, (scene.keys.ready,), 1000)
    return popping(scene.queue(), 1)


@worst("pop", "1,000 x 0.9 MiB ready")
def large(scene: Scene) -> Act:
    scene.ready(1000, scene.size(LARGE))
    return popping(scene.queue())


@worst("pop", "16 x 8 MiB ready, by a stranger")
def strange(scene: Scene) -> Act:
    scene.ready(16, scene.size(8 * MIB))
    return popping(scene.queue(), 1)


@worst("pop", "16 x 64 MiB ready, by a stranger")
def stranger(scene: Scene) -> Act:
    scene.ready(16, scene.size(64 * MIB))
    return popping(scene.queue(), 1)


@worst("pop", "16 x 8 MiB behind 1,000 small")
def strange_behind_small(scene: Scene) -> Act:
    scene.ready(1000)
    scene.ready(16, scene.size(8 * MIB))
    return popping(scene.queue(), 20)


@worst("pop", "1,000,000 expired at once")
def expired(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000))
    return popping(scene.queue())


@worst("pop", "1,000,000 expired one by one, with counts")
def expired_with_counts(scene: Scene) -> Act:
    count = scene.many(1_000_000)
    scene.leased(count, score=1, step=1)
    scene.counted(count, 3)
    return popping(scene.queue())


@worst("pop", "1,000 x 0.9 MiB expired")
def large_expired(scene: Scene) -> Act:
    scene.leased(1000, scene.size(LARGE))
    return popping(scene.queue())


@worst("pop", "16 x 32 MiB expired")
def larger_expired(scene: Scene) -> Act:
    scene.leased(16, scene.size(32 * MIB))
    return popping(scene.queue(), 16)


@worst("pop", "1,000 x 0.9 MiB expired, requeue=back")
def large_back(scene: Scene) -> Act:
    scene.leased(1000, scene.size(LARGE))
    return popping(scene.queue(requeue="back"))


@worst("pop", "1,000 x 0.9 MiB to the dead letters")
def large_dying(scene: Scene) -> Act:
    scene.leased(1000, scene.size(LARGE))
    scene.counted(1000, 5)
    return popping(scene.queue(max_receives=5), 1)


@worst("pop", "100,000 to the dead letters")
def dying(scene: Scene) -> Act:
    scene.leased(scene.many(100_000))
    scene.counted(scene.many(100_000), 5)
    return popping(scene.queue(max_receives=5), 1)


@with_failures("pop", "100 to the dead letters")
def dying_with_failures(scene: Scene, failure: bytes) -> Act:
    scene.leased(100)
    note_failures(scene, scene.keys.errors, scene.keys.receives, 100, failure)
    return popping(scene.queue(max_receives=RECEIVES), 1)


@worst("pop", "100,000 expired, their bodies missing")
def without_bodies(scene: Scene) -> Act:
    line = "redis.call('ZADD', KEYS[1], 1, id)"
    scene.fill(line, (scene.keys.backup,), scene.many(100_000))
    return popping(scene.queue(), 1)


@worst("pop", "1,000,000 due at once")
def due(scene: Scene) -> Act:
    scene.delayed(scene.many(1_000_000))
    return popping(scene.queue())


@worst("pop", "3,000,000 in flight")
def deep(scene: Scene) -> Act:
    scene.leased(scene.many(3_000_000), score=scene.far, step=1)
    line = LISTED.replace("body", "(string.gsub(body, '\"m', '\"r', 1))")
    scene.fill(line, (scene.keys.ready,), scene.many(300_000))
    return popping(scene.queue(), 300)


@worst("pop", "with acks of 1,000 x 0.9 MiB")
def acking_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.pop_many(1000, ack=held)


@worst("pop", "with acks of 1,000 that were extended")
def acking_extended(scene: Scene) -> Act:
    held, queue = scene.held(1000), scene.queue()
    scene.counted(1000, 3)
    queue.extend(*held, timeout=3600)
    scene.fill(LISTED, (scene.keys.ready,), 1000, first=2000)
    return lambda: queue.pop_many(1000, ack=held)


@worst("pop", "1,000 x 60 KiB of brackets, their id behind")
def brackets(scene: Scene) -> Act:
    return _by_shape(scene, "string.rep('[],', 20 * 1000)", 60 * KIB, 1000)


@worst("pop", "100,000 x 60 bytes, their id behind")
def id_behind(scene: Scene) -> Act:
    return _by_shape(scene, "'1,'", 60, scene.many(100_000))


@worst("pop", "100,000 whose id is no id")
def no_id(scene: Scene) -> Act:
    line = "redis.call('LPUSH', KEYS[1], '{\"id\":{}}')"
    scene.fill(line, (scene.keys.ready,), scene.many(100_000))
    return popping(scene.queue())


def _by_shape(scene: Scene, inner: str, size: int, count: int) -> Act:
    line = f"""local inner = {inner}
      redis.call('LPUSH', KEYS[1], '{{"a":[' .. inner .. '0],"id":"' .. id .. '"}}')"""
    # ``size`` only bounds how many are made at a time: the line makes the bodies.
    scene.fill(line, (scene.keys.ready,), count, size)
    return popping(scene.queue())


@worst("pop", "300,000 in the hand-off list")
def handed_over(scene: Scene) -> Act:
    scene.fill(LISTED, (scene.keys.handoff,), scene.many(300_000))
    return popping(scene.queue())


@worst("pop", "10,000 lists held, none for the queue")
def many_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    scene.ready(scene.many(100_000))
    return popping(scene.queue())


def hold_lists(scene: Scene, count: int, score: float, rows: int = 1) -> None:
    """Make claims of other groups, of a few messages each."""
    line = f"""local list = '{scene.keys.ready.decode()}CLAIM:other:' .. n
      for _ = 1, {rows} do redis.call('LPUSH', list, body) end
      redis.call('HSET', KEYS[2], list, {rows}) redis.call('ZADD', KEYS[1], score, list)"""
    scene.fill(line, (scene.keys.held, scene.keys.heldrows), count, score=score)
