"""The record of a sharded queue, and its shards."""

from __future__ import annotations

from ackq import Queue
from ackq.membership.shards import read
from ackq.queue.keys import QueueKeys
from ackq.sharded import operations, resize
from benchmarks.worst.case import Act, worst
from benchmarks.worst.scene import Scene

NAME = "ackq-benchmark:sharded"


@worst("sharded/open", "1,024 shards")
def opened(scene: Scene) -> Act:
    home = scene.own(Queue(scene.client, f"{{{NAME}}}"))
    return lambda: home.execute(lambda spec: read(NAME, 1024))


@worst("sharded/change", "1,024 shards, 1,000 former numbers")
def changed(scene: Scene) -> Act:
    home = scene.own(Queue(scene.client, f"{{{NAME}}}"))
    home.execute(lambda spec: read(NAME, 1024))
    return lambda: home.execute(resize.change, NAME, 1, 1024, range(1, 1001))


@worst("sharded/retire", "an empty stream of dead letters")
def retired(scene: Scene) -> Act:
    shard = scene.own(Queue(scene.client, NAME))
    scene.client.xdel(f"{NAME}DEAD", scene.client.xadd(f"{NAME}DEAD", {"key": "a"}))
    return lambda: shard.execute(resize.retire, 1)


@worst("sharded/revive", "a retired shard")
def revived(scene: Scene) -> Act:
    shard = scene.own(Queue(scene.client, NAME))
    shard.execute(resize.retire, 1)
    return lambda: shard.execute(resize.revive, 2)


@worst("sharded/look", "a million leases ended")
def looked(scene: Scene) -> Act:
    shard = scene.own(Queue(scene.client, NAME))
    keys = QueueKeys.of(NAME)
    scene.fill(
        "redis.call('ZADD', KEYS[1], score, id)", (keys.backup,), scene.many(1_000_000), score=1
    )
    return lambda: shard.execute(operations.look)
