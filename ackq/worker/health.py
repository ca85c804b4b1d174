"""A health check for a supervisor that restarts workers: a file, or an HTTP endpoint."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self

from ackq.config import Seconds, check_integer, check_seconds
from ackq.core.client import Closable
from ackq.core.io.http import Answer, HttpServer
from ackq.errors import EXPECTED, ConfigurationError
from ackq.ops.attention.marks import Marks
from ackq.ops.attention.model import Details, Limits, Trouble, troubles_of_queue
from ackq.ops.chronicle.durations import BUCKETS
from ackq.ops.readings import Reading, Totals
from ackq.setting_types import checked
from ackq.worker.effects import Call, Routine
from ackq.worker.feeder import TAKE_TIMEOUT
from ackq.worker.figures import WAIT_BUCKETS, Figures, Snapshot
from ackq.worker.logs import log
from ackq.worker.state import State

#: Paths that the HTTP endpoint serves.
PATHS = ("/", "/healthz", "/metrics")
#: Seconds that a connection to the health port may last.
MAX_CONNECTION = 5.0
#: Longest time, in seconds, that a take lasts while the server works normally.
MAX_TAKE = 2 * TAKE_TIMEOUT


class Health(Closable):
    """Report a worker as unhealthy (red) if its work is stuck for ``stalled_after`` seconds.

    Work is stuck if messages are ready in a queue that is not paused and none is taken, if a call
    to Redis neither returns nor fails, or if the worker's own loop hangs. An idle worker is
    healthy. So is one that cannot reach Redis, since a restart would not help.

    Args:
        file: exists while the worker is healthy, and is touched every ``interval``. It is removed
            when the worker hangs. If the whole process is frozen, the file only gets older.
        port: serves ``/`` and ``/healthz``: status 200 or 503, with the reason as JSON, and
            ``troubles``, such as that all deliveries fail, in which a restart does not help; and
            ``/metrics`` for Prometheus, which needs ``ackq[metrics]``. 0 picks a free port.
        host: the address to listen on, IPv4 or IPv6. Defaults to loopback.
        stalled_after: seconds. Choose more than the longest handler takes, if such handlers can
            fill all slots, and more than the rate limit makes messages wait. Defaults to 60.
        interval: seconds between two checks. Defaults to 1.
    """

    @checked
    def __init__(
        self,
        *,
        file: str | os.PathLike[str] | None = None,
        port: int | None = None,
        host: str = "127.0.0.1",
        stalled_after: Seconds = 60.0,
        interval: Seconds = 1.0,
    ) -> None:
        self._stalled_after = check_seconds(stalled_after, "stalled_after")
        self._interval = check_seconds(interval, "interval")
        if port is not None:
            check_integer(port, "port", 0, 65535)
        if file is None and port is None:
            raise ConfigurationError("a health check needs a file or a port")
        self._file = Path(file) if file is not None else None
        if self._file is not None and not os.access(self._file.parent, os.W_OK | os.X_OK):
            raise ConfigurationError(f"health check: no file can be made in {self._file.parent}")
        self._endpoint = (host, port) if port is not None else None
        #: Counts what the handlers do; None: nobody can see it.
        self.figures: Figures | None = Figures() if port is not None else None
        #: The figures to serve; those of all processes, if there are several.
        self.served: Served | None = self.figures
        self._limits, self._marks = Limits(), dict[str, Marks]()
        self._server: HttpServer | None = None
        self._next = 0.0
        self._seen = time.monotonic()
        self._waiting_since: float | None = None
        self._reason = ""
        self._ended = threading.Event()

    @property
    def address(self) -> tuple[str, int] | None:
        """The address of the HTTP endpoint while the worker runs, otherwise None."""
        return self._server.address if self._server is not None else None

    @property
    def reason(self) -> str:
        """Why the worker is unhealthy; empty while it is healthy."""
        if self._reason:
            return self._reason
        silent = time.monotonic() - self._seen
        if silent > self._stalled_after + 3 * self._interval:
            return f"the worker's loop has not been seen for {silent:.0f} s"
        return ""

    def _guard(self) -> None:
        """Remove the file when the worker's loop hangs: the loop cannot do so itself."""
        assert self._file is not None
        hangs = False
        while not self._ended.wait(self._interval):
            hung, hangs = hangs, bool(self.reason) and not self._reason
            if hangs and not hung:
                log.warning("health: %s", self.reason)
            if hangs:
                with contextlib.suppress(OSError):
                    self._file.unlink(missing_ok=True)

    def watch(self, state: State) -> Routine[None]:
        """Check the worker, at most once per interval, and publish the result."""
        now = state.clock()
        if now < self._next:
            return
        self._next = now + self._interval
        if self.figures is not None:
            self.figures.count()
            self.figures.busy, self.figures.concurrency = state.busy(), len(state.slots)
        self.show((yield from self._problem(state, now)))

    def show(self, reason: str) -> None:
        """Publish "red" with this reason, or "green" if it is empty."""
        # Compare only red and green: the reason contains times and may change every second.
        if bool(reason) != bool(self._reason):
            log.warning("health: %s", reason or "healthy again")
        self._reason = reason
        self._seen = time.monotonic()
        if self._file is not None:
            with contextlib.suppress(OSError):
                if reason:
                    self._file.unlink(missing_ok=True)
                else:
                    self._file.write_text("ok\n")

    def _problem(self, state: State, now: float) -> Routine[str]:
        for lane in state.lanes:
            silent = now - lane.take.asked_at if lane.take.asked_at is not None else 0.0
            if silent > self._stalled_after + MAX_TAKE and not state.stopping:
                return f"no answer from Redis for {silent:.0f} s, queue {lane.queue.name!r}"
        since = self._waiting_since
        if (
            state.stopping
            or not state.takes
            or now - state.feed.last_take < self._interval
            or (since is not None and state.feed.last_take >= since)
        ):
            self._waiting_since = None
            return ""
        waiting = []
        for lane in state.lanes:
            try:
                stats = yield Call(lane.queue.stats)
            except EXPECTED:
                return ""
            if stats.ready and not stats.paused:
                waiting.append(f"{stats.ready} in {lane.queue.name!r}")
        if not waiting:
            self._waiting_since = None
            return ""
        if since is None:
            self._waiting_since = since = now
        if now - since < self._stalled_after:
            return ""
        return f"none taken for {now - since:.0f} s while ready: {', '.join(waiting)}"

    def __enter__(self) -> Self:
        """Start the endpoint and the guard of the file.

        Raises:
            ConfigurationError: the address or port cannot be used.
        """
        if self._endpoint is not None:
            self._server = HttpServer(self._endpoint, self._answer, MAX_CONNECTION, "health check")
            self._server.start()
        if self._file is not None:
            self._seen = time.monotonic()
            threading.Thread(target=self._guard, daemon=True).start()
        return self

    def close(self) -> None:
        """Stop the endpoint and the guard, and remove the file."""
        self._ended.set()
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        asked = path.partition("?")[0]
        if asked == "/metrics":
            return self._metrics(headers)
        if asked not in PATHS:
            return Answer.of_json(404, {"error": f"nothing here; ask for {' or '.join(PATHS)}"})
        reason = self.reason
        shown = {"healthy": not reason, "reason": reason, "troubles": self._troubles()}
        return Answer.of_json(503 if reason else 200, shown)

    def _troubles(self) -> list[dict[str, Any]]:
        """Return what needs a person, and no restart, as far as the handlers show it."""
        assert self.served is not None
        seen, now = self.served.snapshot(), time.time()
        by_queue: dict[str, Counter[str]] = {}
        for name, handled in seen.queues.items():
            by_queue.setdefault(name.partition("\0")[0], Counter()).update(handled.outcomes)
        found: list[Trouble] = []
        for name, ended in by_queue.items():
            counts = {"acked": ended["ack"], "nacked": ended["nack"], "returned": ended["lost"]}
            totals = Totals(seen.since, counts, {"rejected": ended["reject"]})
            reading = Reading("list", name, 0, totals=totals)
            marks = self._marks.setdefault(name, Marks())
            marks.advance(reading, now, new=True)
            found += troubles_of_queue(reading, marks, Details(), self._limits, now)
        return [each.as_dict() for each in found if each.key.kind == "all_fail"]

    def _metrics(self, headers: Mapping[str, str]) -> Answer:
        assert self.served is not None
        try:
            from ackq.metrics.exposition import render
            from ackq.metrics.handlers import handler_metrics, slot_metrics
        except ModuleNotFoundError as error:
            return Answer.of_json(404, {"error": str(error)})
        seen = self.served.snapshot()
        metrics = handler_metrics(seen.queues, BUCKETS, WAIT_BUCKETS, seen.since)
        return render(chain(metrics, slot_metrics(seen.busy, seen.concurrency)), headers)


class Served(Protocol):
    """Where the figures of one worker, or of several processes, come from."""

    def snapshot(self) -> Snapshot:
        """Return the figures."""
