"""What the processes of these tests do."""

from __future__ import annotations

import random
import time
from pathlib import Path

import redis

from ackq.delay import DelayedMessage, DelayQueue
from ackq.errors import AckqError
from tests.faults.roles import Boundaries, Log, MortalConnection


def die_at_boundary(url: str, log: Path, fatal: int, lease: float) -> None:
    """Take two messages and delete them one by one, dying before or after some request."""
    pool = redis.ConnectionPool.from_url(url, connection_class=MortalConnection)
    queue = DelayQueue(redis.Redis(connection_pool=pool), "t", visibility_timeout=lease)
    journal = Log(log)
    queue.stats()
    Boundaries.armed, Boundaries.fatal = True, fatal
    for message in queue.take(2):
        queue.delete(message)
        journal.write(deleted=message.key)


def count_deaths(url: str, log: Path, lease: float) -> None:
    """Consume for ever, and tell when each lease began and was to end by the server's clock."""
    queue = DelayQueue.from_url(url, "t", visibility_timeout=lease)
    journal = Log(log)
    while True:
        try:
            for message in queue.take(5, timeout=1):
                _handle(queue, journal, message, lease)
        except (AckqError, redis.RedisError):
            time.sleep(0.02)


def _handle(queue: DelayQueue, journal: Log, message: DelayedMessage, lease: float) -> None:
    # With its jitter the lease began a little earlier: the latest that it can have begun.
    until = message.receipt / 1e6
    journal.write(**{"taken": message.key, "from": until - lease, "until": until})
    time.sleep(random.uniform(0, 0.01))
    if queue.delete(message):
        journal.write(deleted=message.key)
