"""The list queue: settling and extending leased messages."""

from __future__ import annotations

from ackq import Message
from benchmarks.worst.case import Act, worst
from benchmarks.worst.failures import RECEIVES, note_failures, with_failures
from benchmarks.worst.scene import LARGE, MIB, Scene


@worst("ack", "1,000 x 0.9 MiB")
def ack_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.ack(*held)


@worst("ack", "16 x 64 MiB")
def ack_larger(scene: Scene) -> Act:
    held, queue = scene.held(16, scene.size(64 * MIB)), scene.queue()
    return lambda: queue.ack(*held)


@worst("ack", "100,000 extended, with counts")
def ack_extended(scene: Scene) -> Act:
    count = scene.many(100_000)
    held, queue = scene.held(count), scene.queue()
    scene.counted(count, 3)
    queue.extend(*held, timeout=3600)
    return lambda: queue.ack(*held)


@worst("ack", "100,000 of 3,000,000 in flight, one score for all")
def ack_deep(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(3_000_000))[: scene.many(100_000)], scene.queue()
    return lambda: queue.ack(*held)


@worst("ack_id", "1,000 x 0.9 MiB")
def ack_id_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.ack_id(*(each.id for each in held))


@worst("ack_id", "100,000 with counts")
def ack_id_counted(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(100_000)), scene.queue()
    scene.counted(len(held), 3)
    return lambda: queue.ack_id(*(each.id for each in held))


@worst("nack", "1,000 x 0.9 MiB")
def nack_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.nack(*held)


@worst("nack", "1,000 x 0.9 MiB, delay=0")
def nack_large_at_once(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.nack(*held, delay=0)


@worst("nack", "1,000 x 0.9 MiB, requeue=back")
def nack_large_back(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue(requeue="back")
    return lambda: queue.nack(*held, delay=0)


@worst("nack", "1,000 x 0.9 MiB to the dead letters")
def nack_large_dying(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue(max_receives=1)
    return lambda: queue.nack(*held)


@worst("nack", "16 x 64 MiB to the dead letters")
def nack_larger_dying(scene: Scene) -> Act:
    held, queue = scene.held(16, scene.size(64 * MIB)), scene.queue(max_receives=1)
    return lambda: queue.nack(*held)


@worst("nack", "100,000 of 3,000,000 in flight")
def nack_deep(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(3_000_000))[: scene.many(100_000)], scene.queue()
    return lambda: queue.nack(*held)


@with_failures("nack", "100 that die")
def nack_dying_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = _failed(scene, failure), scene.queue(max_receives=RECEIVES)
    return lambda: queue.nack(*held)


@with_failures("nack", "100 that return")
def nack_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = _failed(scene, failure), scene.queue()
    return lambda: queue.nack(*held)


@with_failures("reject", "100")
def reject_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = _failed(scene, failure), scene.queue()
    return lambda: queue.reject(*held)


def _failed(scene: Scene, failure: bytes) -> list[Message]:
    """Return 100 messages with five noted failures, whose handlers failed once more."""
    held = scene.held(100)
    note_failures(scene, scene.keys.errors, scene.keys.receives, 100, failure)
    for message in held:
        message.failure = failure
    return held


@worst("nack", "1,000 x 0.9 MiB released")
def release_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.release(*held)


@worst("reject", "1,000 x 0.9 MiB")
def reject_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.reject(*held, reason="no use")


@worst("reject", "16 x 64 MiB")
def reject_larger(scene: Scene) -> Act:
    held, queue = scene.held(16, scene.size(64 * MIB)), scene.queue()
    return lambda: queue.reject(*held, reason="no use")


@worst("reject", "100,000 with counts")
def reject_many(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(100_000)), scene.queue()
    scene.counted(len(held), 3)
    return lambda: queue.reject(*held, reason="no use")


@worst("extend", "100,000 of 3,000,000 in flight, one score for all")
def extend_deep(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(3_000_000))[: scene.many(100_000)], scene.queue()
    return lambda: queue.extend(*held, timeout=3600)


@worst("extend", "1,000 x 0.9 MiB")
def extend_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.extend(*held, timeout=3600)
