"""What the processes of these tests do."""

import random
import time
from pathlib import Path

import redis

from ackq.delay import DelayedMessage, DelayQueue, PartitionedDelayQueue
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
    """Consume for ever, and log when each lease begins and is to end by the server's clock."""
    queue = DelayQueue.from_url(url, "t", visibility_timeout=lease)
    journal = Log(log)
    while True:
        try:
            for message in queue.take(5, timeout=1):
                _handle(queue, journal, message, lease)
        except (AckqError, redis.RedisError):
            time.sleep(0.02)


def _handle(
    queue: DelayQueue | PartitionedDelayQueue,
    journal: Log,
    message: DelayedMessage,
    lease: float,
    now: float = 0.0,
) -> None:
    # With its jitter the lease began a little earlier: the latest that it can have begun.
    until = message.receipt / 1e6
    span = {"from": until - lease, "until": until, "ready": message.ready_time, "now": now}
    journal.write(taken=message.key, **span)
    time.sleep(random.uniform(0, 0.01))
    if queue.delete(message):
        journal.write(deleted=message.key)


#: For `consume_partitions`.
PARTITIONS = 16
SESSION = 1.0


def consume_partitions(url: str, log: Path, lease: float) -> None:
    """Consume some of the partitions for ever, and log every event."""
    journal = Log(log)
    queue = PartitionedDelayQueue.from_url(
        url, "t", PARTITIONS, visibility_timeout=lease, session_timeout=SESSION
    )
    clock = redis.Redis.from_url(url)
    owned: tuple[int, ...] = ()
    while True:
        try:
            messages = queue.take(5, timeout=0.05)
            if queue.assigned != owned:
                owned = queue.assigned
                journal.write(owns=owned)
            for message in messages:
                seconds, micros = clock.time()
                _handle(queue, journal, message, lease, now=seconds + micros / 1e6)
        except (AckqError, redis.RedisError):
            time.sleep(0.02)
