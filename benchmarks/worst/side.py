"""Scripts besides the queues: consumer groups, workers, pipelines."""

from __future__ import annotations

from ackq.membership.client import ConsumerGroup
from ackq.membership.operations import GroupSpec
from ackq.ops.registry import entries, heartbeat, leave_order
from ackq.ops.registry import leave as leave_list
from ackq.queue.keys import QueueKeys
from ackq.queue.row_dead_letters import RejectedRow
from ackq.queue.row_dead_letters_client import RowDeadLetters
from ackq.worker.ratelimit import RateLimit, permit
from ackq.worker.schedule import tick
from benchmarks.worst.case import Act, times, worst
from benchmarks.worst.scene import KIB, LARGE, MIB, NAME, Scene

#: The most partitions of a group, and the number of its sessions.
SHARES, SESSIONS = 1024, 1000
GROUP = GroupSpec.of(NAME, SHARES, 10.0).keys


def crowded(scene: Scene, score: float, count: int = SESSIONS) -> ConsumerGroup:
    """Return a group with many sessions, which end at ``score``."""
    scene.fill("redis.call('ZADD', KEYS[1], score, id)", (GROUP.members,), count, score=score)
    return scene.own(ConsumerGroup(scene.client, NAME, SHARES, session_timeout=3600))


@worst("members/heartbeat", "1,000 sessions join 1,024 shares")
def join(scene: Scene) -> Act:
    members = [crowded(scene, scene.far)]
    members += [scene.own(ConsumerGroup(scene.client, NAME, SHARES)) for _ in range(10)]
    return lambda: [each.join() for each in members]


@worst("members/heartbeat", "10,000 sessions ended at once")
def ended(scene: Scene) -> Act:
    return crowded(scene, 1, 10 * SESSIONS).join


@worst("members/assign", "1,024 shares among 1,000 sessions")
def assign(scene: Scene) -> Act:
    members = [crowded(scene, scene.far)]
    members += [scene.own(ConsumerGroup(scene.client, NAME, SHARES)) for _ in range(10)]
    return lambda: [each.join() for each in members]


@worst("members/leave", "one of 10,000 sessions")
def leave(scene: Scene) -> Act:
    members = crowded(scene, scene.far, 10 * SESSIONS)
    members.join()
    return members.leave


@worst("pipeline/reject", "10,000 x 2 KiB")
def reject(scene: Scene) -> Act:
    return _reject(scene, scene.many(10_000), 2 * KIB)


@worst("pipeline/reject", "100 x 0.9 MiB")
def reject_large(scene: Scene) -> Act:
    return _reject(scene, 100, LARGE)


@worst("pipeline/reject", "4 x 64 MiB")
def reject_larger(scene: Scene) -> Act:
    return _reject(scene, 4, 64 * MIB)


def _reject(scene: Scene, count: int, size: int) -> Act:
    rejects, body = scene.own(RowDeadLetters(scene.client, NAME, "writer")), b"x" * scene.size(size)
    rows = [RejectedRow(str(n), body, "no use") for n in range(count)]

    def work() -> None:
        rejects.begin("batch")
        rejects.reject("batch", rows)

    return work


@worst("pipeline/reject", "a new batch after one of 1,000,000 rows")
def reject_anew(scene: Scene) -> Act:
    key = QueueKeys.of(NAME).ready + b"REJECTED:writer"
    scene.client.hset(key, "batch", "former")
    scene.fill("redis.call('HSET', KEYS[1], 'row:' .. id, '')", (key,), scene.many(1_000_000))
    return _reject(scene, 500, 100)


@worst("worker/permit", "1,000 at a time")
def permit_many(scene: Scene) -> Act:
    queue, limit = scene.queue(), RateLimit(1_000_000_000, burst=1_000_000_000)
    return times(100, lambda: queue.execute(permit, limit, 1000, 0))


@worst("worker/tick", "100 x 0.9 MiB, 10,000 schedules")
def ticks(scene: Scene) -> Act:
    scene.fill(
        "redis.call('HSET', KEYS[1], id, 1, id .. ':missed', 1)",
        (scene.keys.ticks,),
        scene.many(10_000),
    )
    queue, body = scene.queue(), b"x" * scene.size(LARGE)

    def work() -> None:
        for n in range(1, 100):
            queue.execute(tick, "schedule", n, n - 1, 0, body)

    return work


@worst("worker/heartbeat", "100 calls, after 10,000 workers died at once")
def heartbeat_after_deaths(scene: Scene) -> Act:
    _list(scene, scene.many(10_000), "0")
    queue, record = scene.queue(), b"x" * 8192
    return times(100, lambda: queue.execute(heartbeat, "worker", record, 30.0, b""))


@worst("worker/leave", "one of 10,000 workers")
def worker_leaves(scene: Scene) -> Act:
    _list(scene, scene.many(10_000), "8e15")
    queue = scene.queue()
    return lambda: queue.execute(leave_list, "1")


@worst("worker/list", "10,000 workers with records of 8 KiB")
def many_workers(scene: Scene) -> Act:
    _list(scene, scene.many(10_000), "8e15")
    queue = scene.queue()
    return lambda: queue.execute(entries)


@worst("worker/order", "10,000 workers")
def order_many(scene: Scene) -> Act:
    count = scene.many(10_000)
    _list(scene, count, "8e15")
    queue, ids = scene.queue(), [b"%d" % number for number in range(count)]
    return lambda: queue.execute(leave_order, "quiet", ids)


def _list(scene: Scene, count: int, end: str) -> None:
    seen, doing, _ = scene.keys.workers
    scene.fill(
        f"redis.call('ZADD', KEYS[1], '{end}', id)"
        " redis.call('HSET', KEYS[2], id, string.rep('x', 8192))",
        (seen, doing),
        count,
    )
