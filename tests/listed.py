"""Workers that are in the list of a queue, without a process."""

from collections.abc import Sequence
from typing import Any

from ackq import Queue
from ackq.worker.presence import encode_record, heartbeat


def list_worker(
    queue: Queue, id: str, running: Sequence[tuple[str, float]] = (), **fields: Any
) -> None:
    """Write the record of a worker that handles these messages, each for some seconds."""
    usual: dict[str, Any] = {"name": id, "host": "h", "state": "working", "queues": [queue.name]}
    usual |= {"busy": 1, "concurrency": 4, "interval": 5.0, "lifetime": 600.0, **fields}
    queue.execute(heartbeat, id, encode_record(usual, [*running]), usual["lifetime"], b"")
