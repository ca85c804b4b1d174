"""The article's own delay queue, with the commands that it sends and none besides."""

from typing import Any

PUSH = """
local topicZSet = KEYS[1]
local topicHash = KEYS[2]
local key = ARGV[1]
local body = ARGV[2]
local readyTime = tonumber(ARGV[3])
local count = redis.call("zadd", topicZSet, readyTime, key)
if count == 0 then
   return 0
end
redis.call("hsetnx", topicHash, key, body)
return 1
"""

DELETE = """
local topicZSet = KEYS[1]
local topicHash = KEYS[2]
local key = ARGV[1]
redis.call("zrem", topicZSet, key)
redis.call("hdel", topicHash, key)
return 1
"""


class Article:
    """Topic ``topic``, or one of its partitions: ``topic:3``."""

    def __init__(self, client: Any, topic: str) -> None:
        self.client = client
        self.z, self.h = f"{topic}:z", f"{topic}:h"

    def push(self, key: str, body: bytes, ready_time: int) -> bool:
        """Push; the article's ready times are whole seconds."""
        return bool(self.client.eval(PUSH, 2, self.z, self.h, key, body, ready_time))

    def due(self, now: int, batch_size: int = 100) -> list[tuple[bytes, float]]:
        """List what its consumer would handle at ``now``."""
        found: list[tuple[bytes, float]] = self.client.zrangebyscore(
            self.z, "-inf", now, start=0, num=batch_size, withscores=True
        )
        return found

    def body(self, key: bytes) -> bytes | None:
        """Read one body, as its consumer does for each message of a batch."""
        found: bytes | None = self.client.hget(self.h, key)
        return found

    def delete(self, key: bytes | str) -> None:
        """Delete what was handled."""
        self.client.eval(DELETE, 2, self.z, self.h, key)
