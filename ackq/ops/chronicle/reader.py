"""Read the past of queues: `read_past` and `read_causes`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from ackq.core.effects import Operation
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.io.together import run_all
from ackq.ops.asking import now, run
from ackq.ops.chronicle import causes
from ackq.ops.chronicle.causes import CauseTable
from ackq.ops.chronicle.minutes import Minute, read
from ackq.ops.chronicle.store import history_key
from ackq.ops.kinds.kind import Redis
from ackq.ops.readings import Reading


def read_past(client: Redis, kind: str, name: str, seconds: float) -> tuple[list[Minute], float]:
    """Return the minutes of the last ``seconds``, oldest first, and the server's time. Two calls.

    Raises:
        NoPermissionError: the user may not read them.
        KeyTypeError: the key has another type.
    """
    key = history_key(kind, name)

    def steps() -> Operation[tuple[list[Minute], float]]:
        at = yield from now()
        return (yield from read(key, at, seconds)), at

    return run(client, key, steps())


def read_causes(client: Redis, queues: Sequence[Reading]) -> list[CauseTable]:
    """Return the causes of each queue, those of its parts together. A call for each key.

    Of a queue that cannot be read, there are none.
    """
    route = route_of(client, b"")
    keys = [
        [
            history_key(each.kind, each.name)
            for each in (queue, *queue.parts)  # workers count for the queue, not for a shard
        ]
        for queue in queues
    ]
    with closing(route):
        results = run_all(
            [(Driver(route.beside(key)), causes.read(key)) for some in keys for key in some]
        )
    answers = iter(results)
    return [
        causes.merged(table for _ in some if isinstance(table := next(answers), causes.CauseTable))
        for some in keys
    ]
