"""Outages of a server: logged when they begin and when they end, not in between."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import redis

from ackq.worker.logs import log, reason_of

#: Connection errors: the server is unreachable, whichever operation noticed it.
AWAY = (redis.ConnectionError, redis.TimeoutError, OSError)


@dataclass(slots=True)
class Outage:
    """An unreachable server, or an operation that the server rejects."""

    since: float
    failures: int = 0


class Outages:
    """The outages of one queue. Any thread may call any method."""

    def __init__(self, queue: str, server: str) -> None:
        self._queue = queue
        self._server = server
        self._lock = threading.Lock()
        self.current: dict[str, Outage] = {}  #: by operation; "" if unreachable

    def failed(self, doing: str, error: BaseException, now: float) -> None:
        """Record that the server was unreachable, or rejected an operation."""
        away = isinstance(error, AWAY)
        with self._lock:
            begins = ("" if away else doing) not in self.current
            self.current.setdefault("" if away else doing, Outage(now)).failures += 1
        if begins:
            state = "is away" if away else "refuses it"
            log.warning(
                "queue %s: %s failed, the server at %s %s; trying until it works: %s",
                self._queue,
                doing,
                self._server,
                state,
                reason_of(error),
                extra={"queue": self._queue, "error": type(error).__name__},
            )

    def succeeded(self, doing: str, now: float) -> None:
        """Record that the operation succeeded."""
        for name, what in (("", "the server answers"), (doing, f"{doing} works")):
            with self._lock:
                outage = self.current.pop(name, None)
            if outage is not None:
                log.warning(
                    "queue %s: %s again after %.1f s; calls that failed: %d",
                    self._queue,
                    what,
                    now - outage.since,
                    outage.failures,
                    extra={"queue": self._queue},
                )
