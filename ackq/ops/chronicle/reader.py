"""Read the past of a queue: `read_past`."""

from __future__ import annotations

from contextlib import closing

from ackq.core.effects import Operation, Request
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.ops.chronicle.minutes import Minute, read
from ackq.ops.chronicle.store import history_key
from ackq.ops.kinds.kind import Redis


def read_past(client: Redis, kind: str, name: str, seconds: float) -> tuple[list[Minute], float]:
    """Return the minutes of the last ``seconds``, oldest first, and the server's time. Two calls.

    Raises:
        NoPermissionError: the user may not read them.
        KeyTypeError: the key has another type.
    """
    key = history_key(kind, name)
    driver = Driver(route_of(client, key))
    with closing(driver.route):
        now = driver.run(_now())
        return driver.run(read(key, now, seconds)), now


def _now() -> Operation[float]:
    seconds, microseconds = yield Request((b"TIME",), resend=True)
    return int(seconds) + int(microseconds) / 1_000_000
