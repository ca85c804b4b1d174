"""Scripts besides the queues: consumer groups, workers, pipelines."""

from __future__ import annotations

from ackq.membership.client import ConsumerGroup
from ackq.membership.operations import GroupSpec
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
    return lambda: rejects.reject("batch", rows)


@worst("pipeline/reject", "a new batch after one of 1,000,000 rows")
def reject_anew(scene: Scene) -> Act:
    key = QueueKeys.of(NAME).ready + b"REJECTED:writer"
    scene.client.hset(key, "batch", "former")
    scene.fill("redis.call('HSET', KEYS[1], 'row:' .. id, '')", (key,), scene.many(1_000_000))
    return _reject(scene, 500, 100)


@worst("worker/permit", "1,000 at a time")
def permit_many(scene: Scene) -> Act:
    queue, limit = scene.queue(), RateLimit(1_000_000_000, burst=1_000_000_000)
    return times(100, lambda: queue._run(permit(queue._spec, limit, 1000, 0)))


@worst("worker/tick", "100 x 0.9 MiB, 10,000 schedules")
def ticks(scene: Scene) -> Act:
    scene.fill("redis.call('HSET', KEYS[1], id, 1, id .. ':missed', 1)", (scene.keys.ticks,),
               scene.many(10_000))  # fmt: skip
    queue, body = scene.queue(), b"x" * scene.size(LARGE)

    def work() -> None:
        for n in range(1, 100):
            queue._run(tick(queue._spec, "schedule", n, n - 1, 0, body))

    return work
