"""The list queue: the operations of producers and operators."""

from __future__ import annotations

from ackq.ops.overview import Overview
from ackq.queue import pop_from
from benchmarks.worst.case import Act, times, worst
from benchmarks.worst.failures import dead_with_failures, with_failures
from benchmarks.worst.scene import KIB, LARGE, LISTED, MIB, NAME, Scene
from benchmarks.worst.taking import hold_lists

#: Makes a queue with a message in every place, all counts, and held lists.
QUEUE = """
local name, held, body, far = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]
redis.call('LPUSH', name, body)
redis.call('ZADD', name .. 'BACKUP', 1, 'a', far, 'b')
redis.call('ZADD', name .. 'DELAYED', 1, 'c', far, 'd')
redis.call('XADD', name .. 'DEAD', '*', 'key', 'e')
for n = 1, held do
  redis.call('ZADD', name .. 'HELD', far, name .. 'CLAIM:g:' .. n)
  redis.call('HSET', name .. 'HELDROWS', name .. 'CLAIM:g:' .. n, 1)
end
redis.call('HSET', name .. 'COUNTERS', 'since', 1, 'live', 5, 'held', 2, 'acked', 1)
for n = 1, 96 do
  redis.call('HSET', name .. 'COUNTERS', 'lease:' .. n, 1)
end
"""


@worst("schedule", "1,000 x 0.9 MiB")
def schedule_large(scene: Scene) -> Act:
    queue, text = scene.queue(), "x" * scene.size(LARGE)
    return lambda: queue.push_many([{"id": f"m{n}", "p": text} for n in range(1000)], delay=60)


@worst("schedule", "100,000 into 1,000,000 delayed, all ids taken")
def schedule_taken(scene: Scene) -> Act:
    queue, count = scene.queue(), scene.many(100_000)
    scene.delayed(scene.many(1_000_000), score=scene.far)
    return lambda: queue.push_many([{"id": f"m{n:07d}"} for n in range(1, count)], delay=60)


@worst("schedule", "1,000 without ids behind 300,000 of the same time")
def schedule_behind(scene: Scene) -> Act:
    queue, count, at = scene.queue(), scene.many(300_000), scene.far / 1_000_000
    scene.delayed(count, score=scene.far, step=1)
    return lambda: queue.push_many([b"no id"] * 1000, at=at)


@worst("push_once", "200 x 0.9 MiB, now and later")
def push_once_large(scene: Scene) -> Act:
    queue, text = scene.queue(), "x" * scene.size(LARGE)

    def push() -> None:
        for n in range(200):
            queue.push({"id": f"m{n}", "p": text}, dedup=f"a{n}", delay=60 * (n % 2) or None)

    return push


@worst("stats", "1,000,000 in every place")
def stats_deep(scene: Scene) -> Act:
    _in_every_place(scene, scene.many(1_000_000))
    return times(20, scene.queue().stats)


@worst("stats", "10,000 lists held")
def stats_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(20, scene.queue().stats)


@worst("oldest", "1,000,000 in every place")
def oldest_deep(scene: Scene) -> Act:
    _in_every_place(scene, scene.many(1_000_000))
    return times(20, scene.queue().oldest_ready)


@worst("oldest", "10,000 lists came back, a body of 0.9 MiB")
def oldest_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), 1)
    scene.client.lpush(NAME, b'{"created": "%s"}' % (b"x" * scene.size(LARGE)))
    return times(5, scene.queue().oldest_ready)


@worst("overview/lists", "10,000 queues, 20 held lists each, bodies of 5 KiB")
def figures(scene: Scene) -> Act:
    return _figures(scene, 20, 5 * KIB)


@worst("overview/lists", "10,000 queues, bodies of 64 KiB")
def figures_large(scene: Scene) -> Act:
    return _figures(scene, 0, 60 * KIB)


@worst("overview/lists", "1,000 queues, 1,000 held lists each, bodies of 0.9 MiB")
def figures_held(scene: Scene) -> Act:
    return _figures(scene, 1000, LARGE, 1000)


def _figures(scene: Scene, held: int, size: int, count: int = 10_000) -> Act:
    names = [f"{NAME}-{number}" for number in range(scene.many(count))]
    text = '{"id":"a","specversion":"1.0","x":"%s"}' % ('"' * scene.size(size))
    for name in names:
        scene.client.eval(QUEUE, 1, name, held, text, scene.far)
    overview = Overview(scene.client, names, window=900)
    scene.own(overview)
    overview.read()
    return overview.read


@worst("peek", "1,000 x 0.9 MiB in flight")
def peek_large(scene: Scene) -> Act:
    scene.held(1000, scene.size(LARGE))
    queue = scene.queue()
    return lambda: queue.peek(1000, "in_flight")


@worst("peek", "16 x 8 MiB ready, by a stranger")
def peek_strange(scene: Scene) -> Act:
    return _peek_ready(scene, 8 * MIB)


@worst("peek", "16 x 64 MiB ready, by a stranger")
def peek_stranger(scene: Scene) -> Act:
    return _peek_ready(scene, 64 * MIB)


def _peek_ready(scene: Scene, size: int) -> Act:
    scene.ready(16, scene.size(size))
    queue = scene.queue()
    return lambda: queue.peek(16)


@worst("peek", "the middle of 3,000,000 ready")
def peek_middle(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.ready(count)
    queue = scene.queue()
    return times(20, lambda: queue.peek(1000, skip=count // 2))


@worst("peek", "the middle of 3,000,000 in flight")
def peek_middle_in_flight(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.leased(count, score=scene.far, step=1)
    queue = scene.queue()
    return times(20, lambda: queue.peek(1000, "in_flight", skip=count // 2))


@worst("peek", "1,000 claims")
def peek_claims(scene: Scene) -> Act:
    hold_lists(scene, 1000, scene.far)
    queue = scene.queue()
    return lambda: queue.peek(1000, "in_flight")


@worst("purge", "1,000,000 in every place")
def purge_deep(scene: Scene) -> Act:
    _in_every_place(scene, scene.many(1_000_000))
    queue = scene.queue()
    return lambda: queue.purge(dead=True)


@worst("purge", "1,000 x 0.9 MiB in flight")
def purge_large(scene: Scene) -> Act:
    scene.held(1000, scene.size(LARGE))
    return scene.queue().purge


@worst("drain", "1,000 x 0.9 MiB in flight")
def drain_large(scene: Scene) -> Act:
    scene.held(1000, scene.size(LARGE))
    return scene.queue().drain


@worst("drain", "16 x 32 MiB handed over and in flight")
def drain_larger(scene: Scene) -> Act:
    scene.fill(LISTED, (scene.keys.handoff,), 16, scene.size(32 * MIB))
    scene.held(16, scene.size(32 * MIB))
    return scene.queue().drain


@worst("drain", "300,000 in flight and delayed")
def drain_deep(scene: Scene) -> Act:
    scene.held(scene.many(150_000))
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    scene.fill(line, (scene.keys.delayed, scene.keys.context), scene.many(150_000), first=200_000)
    return scene.queue().drain


@worst("drain", "1,000 without bodies in front of 100,000")
def drain_without_bodies(scene: Scene) -> Act:
    scene.leased(scene.many(100_000))
    line = "redis.call('ZADD', KEYS[1], 9, id)"
    scene.fill(line, (scene.keys.backup,), 999, first=1_000_000)
    return scene.queue().drain


@worst("run_now", "100,000 of 1,000,000, one due time for all")
def run_now(scene: Scene) -> Act:
    scene.delayed(scene.many(1_000_000), score=scene.far)
    queue, ids = scene.queue(), [f"m{n:07d}" for n in range(1, scene.many(100_000) + 1)]
    return lambda: queue.run_now(ids=ids)


@worst("cancel", "100,000 of 1,000,000, with notes of failures")
def cancel_deep(scene: Scene) -> Act:
    scene.delayed(scene.many(1_000_000), score=scene.far)
    count = scene.many(100_000)
    line = """local lines = string.rep('\\n1:7:{"text":"' .. string.rep('x', 8000) .. '"}', 5)
      local ends = redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
      redis.call('HSET', KEYS[1], id, #body .. ':' .. ends .. lines)
      redis.call('HSET', KEYS[2], id, 3)"""
    scene.fill(line, (scene.keys.errors, scene.keys.receives), min(count, 1000))
    return _cancel(scene, count)


@worst("cancel", "1,000 x 0.9 MiB")
def cancel_large(scene: Scene) -> Act:
    scene.delayed(1000, scene.size(LARGE), scene.far)
    return _cancel(scene, 1000)


@worst("cancel", "16 x 64 MiB")
def cancel_larger(scene: Scene) -> Act:
    scene.delayed(16, scene.size(64 * MIB), scene.far)
    return _cancel(scene, 16)


def _cancel(scene: Scene, count: int) -> Act:
    queue, ids = scene.queue(), [f"m{n:07d}" for n in range(1, count + 1)]
    return lambda: queue.cancel(ids=ids)


@worst("redrive", "600,000 dead letters")
def redrive_deep(scene: Scene) -> Act:
    scene.dead(scene.many(600_000))
    return scene.queue().redrive


@worst("redrive", "1,000 x 0.9 MiB")
def redrive_large(scene: Scene) -> Act:
    scene.dead(1000, scene.size(LARGE))
    return scene.queue().redrive


@worst("redrive", "16 x 64 MiB")
def redrive_larger(scene: Scene) -> Act:
    scene.dead(16, scene.size(64 * MIB))
    return scene.queue().redrive


@with_failures("redrive", "100")
def redrive_with_failures(scene: Scene, failure: bytes) -> Act:
    dead_with_failures(scene, scene.keys.dead, 100, failure)
    return scene.queue().redrive


@worst("redrive", "100,000 by name, all ids taken")
def redrive_named(scene: Scene) -> Act:
    count = scene.many(100_000)
    scene.dead(count)
    scene.delayed(count, score=scene.far)
    queue, letters = scene.queue(), scene.queue().dead_letters(count)
    return lambda: queue.redrive(entries=[each.entry for each in letters])


@worst("drop", "600,000 dead letters")
def drop_deep(scene: Scene) -> Act:
    scene.dead(scene.many(600_000))
    return _drop_all(scene, 1000)


@worst("drop", "1,000 x 0.9 MiB")
def drop_large(scene: Scene) -> Act:
    scene.dead(1000, scene.size(LARGE))
    return _drop_all(scene, 1000)


def _drop_all(scene: Scene, count: int) -> Act:
    queue = scene.queue()
    entries = [each.entry for each in queue.dead_letters(count)]
    return lambda: queue.drop_dead_letters(*entries)


@worst("audit", "1,000,000 in every place")
def audit_deep(scene: Scene) -> Act:
    _in_every_place(scene, scene.many(1_000_000))
    return scene.queue().audit


@worst("audit_scan", "100,000 x 10 KiB, one of them an orphan")
def audit_bodies(scene: Scene) -> Act:
    scene.leased(scene.many(100_000), scene.size(10_000), scene.far)
    scene.client.zrem(scene.keys.backup, b"m0000001")
    return scene.queue().audit


@worst("audit_scan", "1,000 x 0.9 MiB, one of them an orphan")
def audit_large(scene: Scene) -> Act:
    scene.leased(1000, scene.size(LARGE), scene.far)
    scene.client.zrem(scene.keys.backup, b"m0000001")
    return scene.queue().audit


@worst("audit_scan", "64 x 32 MiB, one of them an orphan")
def audit_larger(scene: Scene) -> Act:
    scene.leased(64, scene.size(32 * MIB), scene.far)
    scene.client.zrem(scene.keys.backup, b"m0000001")
    return scene.queue().audit


@worst("audit_scan", "100,000 to repair in every place")
def audit_broken(scene: Scene) -> Act:
    keys, count = scene.keys, scene.many(100_000)
    line = """for at = 1, 2 do redis.call('ZADD', KEYS[at], score, at .. id) end
      for at = 3, 5 do redis.call('HSET', KEYS[at], at .. id, body) end"""
    broken = (keys.backup, keys.delayed, keys.receives, keys.extended, keys.context)
    scene.fill(line, broken, count, score=scene.far)
    queue = scene.queue()
    return lambda: queue.audit(repair=True)


@worst("watch", "100 lengths of leases")
def watch(scene: Scene) -> Act:
    queue = scene.queue()
    queue.counters()
    scene.client.hset(scene.keys.counters, mapping={f"timeout:{n}": n for n in range(97)})
    return times(100, queue.counters)


@worst("watch", "10,000 lists held")
def watch_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(20, scene.queue().counters)


@worst("pop_from", "1,000,000 leases that ended")
def record_left_end(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000), score=1, step=1)
    queue = scene.queue(pop_from="left")
    return times(100, lambda: queue.execute(lambda spec: pop_from.record(spec.keys)))


def _in_every_place(scene: Scene, count: int) -> None:
    scene.ready(count)
    scene.leased(count // 2, score=1, step=1)
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    scene.fill(line, (scene.keys.delayed, scene.keys.context), count // 2, first=count)
    scene.counted(count // 2, 2)
    scene.dead(count)
