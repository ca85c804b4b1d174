"""What the processes of these tests do."""

from __future__ import annotations

import time
from pathlib import Path

import redis
from redis.cluster import RedisCluster

from ackq.errors import AckqError
from ackq.sharded import ShardedQueue
from tests.faults.roles import Log

SHARDS = 6


def consume_shards(host: str, port: int, name: str, log: Path) -> None:
    """Take and ack for ever, and log what was taken, acked and owned."""
    journal = Log(log)
    queue = ShardedQueue(
        RedisCluster(host, port), name, SHARDS, visibility_timeout=0.6, session_timeout=1.0
    )
    owned: tuple[int, ...] = ()
    while True:
        try:
            messages = queue.pop_many(5, timeout=0.2)
            if queue.assigned != owned:
                owned = queue.assigned
                journal.write(owns=owned)
            for message in messages:
                until = message.receipt / 1e6
                span = {"from": until - 0.6, "until": until}
                journal.write(taken=message.id, **span)
                time.sleep(0.002)
                if queue.ack(message):
                    journal.write(acked=message.id)
        except (AckqError, redis.RedisError):
            time.sleep(0.02)
