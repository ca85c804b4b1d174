"""What producers and workers do: ``python -m ackq.demo.processes produce|work ORDERS``."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import redis

from ackq.demo.journal import Event, Journal
from ackq.demo.source import JOBS, fingerprint, lines_of
from ackq.errors import LeaseLost
from ackq.queue.client import Queue
from ackq.queue.messages import Message

#: Seconds between two pushes.
STEP = 0.05
#: Seconds that a worker waits for a message before it checks whether to end.
WAIT = 0.5
#: Longest body: the input's lines are used unchanged.
MAX_BODY_BYTES = 512 * 1024 * 1024


def produce(orders: dict[str, Any], url: str, journal: Journal) -> None:
    """Push the lines of a file with redis-py alone, spread over several seconds."""
    bodies = lines_of(Path(orders["bodies"]).read_bytes())
    client = redis.Redis.from_url(url)
    size = max(1, round(len(bodies) * STEP / orders["push_seconds"]))
    parent, start = os.getppid(), time.monotonic()
    for first in range(0, len(bodies), size):
        if os.getppid() != parent:
            return  # no process is left to end this one
        chunk = bodies[first : first + size]
        client.lpush(orders["queue"], *chunk)
        journal.write([{"event": "pushed", "bodies": [fingerprint(body) for body in chunk]}])
        due = start + orders["push_seconds"] * (first + size) / len(bodies)
        time.sleep(max(0.0, due - time.monotonic()))


def work(orders: dict[str, Any], url: str, journal: Journal) -> None:
    """Pop, work and ack, until SIGTERM comes or the parent process has ended."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    parent = os.getppid()
    settings = {"visibility_timeout": orders["lease"], "max_body_bytes": MAX_BODY_BYTES}
    with Queue.from_url(url, orders["queue"], **settings) as queue:
        while not stopping and os.getppid() == parent:
            if batch := queue.pop_many(orders["batch"], timeout=WAIT):
                _handle(batch, orders, journal)
                _settle(batch, queue, journal)


def _handle(batch: Sequence[Message], orders: dict[str, Any], journal: Journal) -> None:
    start = time.monotonic()
    journal.write(_event("took", message, count=message.receive_count) for message in batch)
    for place, message in enumerate(batch, 1):
        # The job takes microseconds; the pause makes the demo slow enough to watch.
        if (early := start + place * orders["pause"] - time.monotonic()) > 0.001:
            time.sleep(early)
        journal.write([_event("done", message, digest=JOBS[orders["job"]](message.body))])


def _settle(batch: Sequence[Message], queue: Queue, journal: Journal) -> None:
    journal.write([_event("acking", batch[0])])
    for message in batch:
        try:
            result = "acked" if queue.ack(message) else "gone"
        except LeaseLost:
            result = "refused"
        journal.write([_event(result, message)])


def _event(event: str, message: Message, **more: object) -> Event:
    # A key need not be text; Latin-1 preserves every byte.
    key = message.key.decode("latin-1")
    body = fingerprint(message.body)
    return {"event": event, "key": key, "receipt": message.receipt, "body": body, **more}


if __name__ == "__main__":
    role, orders = {"produce": produce, "work": work}[sys.argv[1]], orjson.loads(sys.argv[2])
    role(orders, os.environ["ACKQ_DEMO_URL"], Journal(Path(orders["journal"])))
