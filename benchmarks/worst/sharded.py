"""The record of a sharded queue, and its shards."""

from __future__ import annotations

from ackq import Queue
from ackq.membership.shards import read
from benchmarks.worst.case import Act, worst
from benchmarks.worst.scene import Scene

NAME = "ackq-benchmark:sharded"


@worst("sharded/open", "1,024 shards")
def opened(scene: Scene) -> Act:
    home = scene.own(Queue(scene.client, f"{{{NAME}}}"))
    return lambda: home.execute(lambda spec: read(NAME, 1024))
