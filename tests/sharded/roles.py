"""What the processes of these tests do."""

import contextlib
import itertools
import random
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
        RedisCluster(host, port), name, visibility_timeout=0.6, session_timeout=1.0
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


def produce(host: str, port: int, name: str, log: Path, first: int) -> None:
    """Push messages for ever, one by one and in batches, and log what was stored."""
    journal = Log(log)
    queue = ShardedQueue(RedisCluster(host, port), name)
    for number in itertools.count(first):
        batch = [{"id": f"{number}-{each}"} for each in range(1 + number % 3)]
        try:
            if number % 4:
                queue.push_many(batch)
            else:
                queue.push(batch[0], delay=0.01)
                batch = batch[:1]
        except (AckqError, redis.RedisError):
            continue
        for each in batch:
            journal.write(pushed=each["id"])
        time.sleep(0.002)


def resize(host: str, port: int, name: str, seed: int) -> None:
    """Change the number of shards again and again."""
    draw = random.Random(seed)
    queue = ShardedQueue(RedisCluster(host, port), name)
    while True:
        with contextlib.suppress(AckqError, redis.RedisError):
            queue.resize(draw.randint(2, 8))
        time.sleep(draw.random() * 0.5)
