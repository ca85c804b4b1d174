"""RSMQ's queues."""

from __future__ import annotations

from typing import Any

from ackq.rsmq import RSMQ
from benchmarks.worst.case import Act, times, worst
from benchmarks.worst.scene import KIB, LARGE, MIB, NAME, Scene

QUEUE = "jobs"
ZSET = f"{NAME}:{QUEUE}".encode()
HASH, STREAM = ZSET + b":Q", ZSET + b":Q.dead"
#: RSMQ's ids have 32 characters.
ID = "local long = string.rep('0', 24) .. id"


def of(scene: Scene, **settings: Any) -> RSMQ:
    """Return the namespace, with a queue that takes bodies of any length."""
    rsmq = scene.own(RSMQ(scene.client, NAME, **settings))
    rsmq.create_queue(QUEUE, maxsize=-1)
    return rsmq


def sent(scene: Scene, count: int, size: int = 100, receives: int = 0) -> list[str]:
    """Send messages that are all visible since one time; return their ids."""
    line = f"""{ID} redis.call('ZADD', KEYS[1], 1, long) redis.call('HSET', KEYS[2], long, body)
      if {receives} > 0 then redis.call('HSET', KEYS[2], long .. ':rc', {receives},
        long .. ':fr', 1) end"""
    scene.fill(line, (ZSET, HASH), count, size)
    return ["0" * 24 + f"m{n:07d}" for n in range(1, count + 1)]


def dead(scene: Scene, count: int, size: int = 100) -> None:
    """Make dead letters."""
    line = f"""{ID} redis.call('XADD', KEYS[1], '*', 'id', long, 'body', body, 'rc', 3, 'fr', 1,
      'time', 1)"""
    scene.fill(line, (STREAM,), count, size)


@worst("rsmq/create_queue", "100,000 queues")
def create(scene: Scene) -> Act:
    rsmq = of(scene)
    scene.fill("redis.call('SADD', KEYS[1], id)", (f"{NAME}:QUEUES".encode(),), scene.many(100_000))

    def work() -> None:
        for n in range(20):
            rsmq.create_queue(f"queue{n}")

    return work


@worst("rsmq/attributes", "1,000,000 messages")
def attributes(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, scene.many(1_000_000))
    return times(20, lambda: rsmq.set_queue_attributes(QUEUE, vt=9))


@worst("rsmq/counters", "1,000,000 messages")
def counters(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, scene.many(1_000_000))
    return times(20, lambda: rsmq.counters(QUEUE))


@worst("rsmq/send", "100,000 x 4 KiB, with notices")
def send(scene: Scene) -> Act:
    rsmq, text = of(scene, realtime=True), b"x" * scene.size(4 * KIB)
    return lambda: rsmq.send_messages(QUEUE, [text] * scene.many(100_000))


@worst("rsmq/send", "300 x 64 KiB of long characters, to be counted")
def send_counted(scene: Scene) -> Act:
    rsmq = scene.own(RSMQ(scene.client, NAME))
    rsmq.create_queue(QUEUE, maxsize=65_536)
    text = "\u20ac" * (scene.size(65_000))
    return lambda: rsmq.send_messages(QUEUE, [text] * 300)


@worst("rsmq/send", "16 x 32 MiB")
def send_larger(scene: Scene) -> Act:
    rsmq, text = of(scene), b"x" * scene.size(32 * MIB)
    return lambda: rsmq.send_messages(QUEUE, [text] * 16)


@worst("rsmq/receive", "1,000,000 visible since one time")
def receive(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, scene.many(1_000_000), receives=3)
    return times(100, lambda: rsmq.receive_messages(QUEUE, 1000))


@worst("rsmq/receive", "1,000 x 0.9 MiB")
def receive_large(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, 1000, scene.size(LARGE))
    return times(100, lambda: rsmq.receive_messages(QUEUE, 1000))


@worst("rsmq/receive", "16 x 32 MiB")
def receive_larger(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, 16, scene.size(32 * MIB))
    return times(16, lambda: rsmq.receive_messages(QUEUE, 1000))


@worst("rsmq/receive", "64 x 0.9 MiB popped")
def pop_large(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, 64, scene.size(LARGE))
    return times(64, lambda: rsmq.pop_message(QUEUE))


@worst("rsmq/receive", "1,000 x 0.9 MiB to the dead letters")
def receive_dying(scene: Scene) -> Act:
    rsmq = of(scene, max_receives=5)
    sent(scene, 1000, scene.size(LARGE), receives=5)
    return lambda: rsmq.receive_messages(QUEUE, 1000)


@worst("rsmq/receive", "100,000 to the dead letters")
def receive_many_dying(scene: Scene) -> Act:
    rsmq = of(scene, max_receives=5)
    sent(scene, scene.many(100_000), receives=5)
    return lambda: rsmq.receive_messages(QUEUE, 1000)


@worst("rsmq/receive", "1,000 with notes of failures to the dead letters")
def receive_noted_dying(scene: Scene) -> Act:
    rsmq = of(scene, max_receives=5)
    sent(scene, 1000, receives=5)
    line = f"""{ID} local lines = {{}}
      for n = 1, 5 do lines[n] = n .. ':7:' .. string.rep('x', 8192) end
      redis.call('HSET', KEYS[1], long, table.concat(lines, '\\n'))"""
    scene.fill(line, (ZSET + b":Q.errors",), 1000)
    return lambda: rsmq.receive_messages(QUEUE, 1000)


@worst("rsmq/receive", "1,000 x 0.9 MiB under ids that are none")
def receive_strange(scene: Scene) -> Act:
    rsmq = of(scene)
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    scene.fill(line, (ZSET, HASH), 1000, scene.size(LARGE))
    return lambda: rsmq.receive_messages(QUEUE, 1000)


@worst("rsmq/delete", "1,000 x 0.9 MiB")
def delete_large(scene: Scene) -> Act:
    rsmq, ids = of(scene), sent(scene, 1000, scene.size(LARGE))
    return lambda: rsmq.delete_messages(QUEUE, ids)


@worst("rsmq/delete", "100,000 of 1,000,000")
def delete_many(scene: Scene) -> Act:
    rsmq, ids = of(scene), sent(scene, scene.many(1_000_000), receives=3)
    return lambda: rsmq.delete_messages(QUEUE, ids[: scene.many(100_000)])


@worst("rsmq/delete_queue", "1,000,000 messages and dead letters")
def delete_queue(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, scene.many(1_000_000))
    dead(scene, scene.many(1_000_000))
    return lambda: rsmq.delete_queue(QUEUE)


@worst("rsmq/delete_queue", "1,000 x 0.9 MiB")
def delete_large_queue(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, 1000, scene.size(LARGE))
    return lambda: rsmq.delete_queue(QUEUE)


@worst("rsmq/redrive", "100,000 dead letters")
def redrive(scene: Scene) -> Act:
    rsmq = of(scene)
    dead(scene, scene.many(100_000))
    return lambda: rsmq.redrive(QUEUE)


@worst("rsmq/redrive", "1,000 x 0.9 MiB")
def redrive_large(scene: Scene) -> Act:
    rsmq = of(scene)
    dead(scene, 1000, scene.size(LARGE))
    return lambda: rsmq.redrive(QUEUE)


@worst("rsmq/redrive", "16 x 32 MiB")
def redrive_larger(scene: Scene) -> Act:
    rsmq = of(scene)
    dead(scene, 16, scene.size(32 * MIB))
    return lambda: rsmq.redrive(QUEUE)


@worst("rsmq/visibility", "one of 1,000,000, one time for all")
def visibility(scene: Scene) -> Act:
    rsmq, ids = of(scene), sent(scene, scene.many(1_000_000))
    return times(50, lambda: rsmq.change_message_visibility(QUEUE, ids[0], 9))
