"""A producer: a process that uses redis-py and nothing of ackq's queue."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import orjson
import redis

from ackq.demo.journal import Journal
from ackq.demo.source import fingerprint, lines_of

#: Seconds between two pushes.
STEP = 0.05


def main() -> None:
    """Push the lines of a file onto a list, spread over several seconds."""
    orders = orjson.loads(sys.argv[1])
    bodies = lines_of(Path(orders["bodies"]).read_bytes())
    journal = Journal(Path(orders["journal"]))
    client = redis.Redis.from_url(os.environ["ACKQ_DEMO_URL"])
    size = max(1, round(len(bodies) * STEP / orders["seconds"]))
    parent, start = os.getppid(), time.monotonic()
    for first in range(0, len(bodies), size):
        if os.getppid() != parent:
            return  # no process is left to end this one
        chunk = bodies[first : first + size]
        client.lpush(orders["queue"], *chunk)
        journal.write([{"event": "pushed", "bodies": [fingerprint(body) for body in chunk]}])
        due = start + orders["seconds"] * (first + size) / len(bodies)
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
