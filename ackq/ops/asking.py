"""What several modules ask a server: small operations, and a way to run one."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, TypeVar

import redis
from redis.exceptions import ResponseError

from ackq.core.effects import Arg, Operation, Request
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.names import check_name
from ackq.errors import QueueNameError

T = TypeVar("T")


def run(client: redis.Redis | redis.RedisCluster, key: str | bytes, steps: Operation[T]) -> T:
    """Run an operation on the server that has a key, on a connection of its own."""
    driver = Driver(route_of(client, key.encode() if isinstance(key, str) else key))
    with closing(driver.route):
        return driver.run(steps)


def reply(*command: Arg) -> Operation[Any]:
    """Return the reply to a command that may be sent again."""
    return (yield Request(command, resend=True))


def ask(*command: Arg) -> Operation[Any]:
    """Return the reply; None if the user may not ask, or the service lacks the command."""
    try:
        return (yield from reply(*command))
    except ResponseError:
        return None


def read_clock() -> Operation[float | None]:
    """Return the server's time in seconds since the epoch; None if the user may not ask."""
    parts = yield from ask(b"TIME")
    return int(parts[0]) + int(parts[1]) / 1_000_000 if parts else None


def now() -> Operation[float]:
    """Return the server's time in seconds since the epoch; this machine's if it is refused."""
    at = yield from read_clock()
    return time.time() if at is None else at


def queue_name(raw: bytes) -> str | None:
    """Return a name of a queue as text; None if no queue can have it, such as a side key's."""
    try:
        name = raw.decode()
        check_name(name)
    except (UnicodeDecodeError, QueueNameError):
        return None
    return name
