"""The CPU that a server's main thread uses for each call of a script, as Linux counts it.

Unlike the wall clock, it does not grow while other processes have the processor.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import redis

#: Seconds to wait for the thread to sleep: only then does the kernel's count include all its work.
PATIENCE = 10.0


class MainThread:
    """The main thread of a process on this machine."""

    def __init__(self, process: int) -> None:
        self._task = Path(f"/proc/{process}/task/{process}")

    @classmethod
    def of(cls, client: redis.Redis) -> Self | None:
        """Return the thread of a server on this machine; None if the kernel does not count it."""
        thread = cls(int(client.info("server")["process_id"]))
        return thread if (thread._task / "schedstat").exists() else None

    def cpu_ms(self) -> float:
        """Wait until the thread sleeps, and return the milliseconds that it has run."""
        give_up = time.monotonic() + PATIENCE
        while (self._task / "stat").read_text().rpartition(")")[2].split()[0] != "S":
            if time.monotonic() > give_up:
                raise TimeoutError("the server's main thread does not come to rest")
        return int((self._task / "schedstat").read_text().split()[0]) / 1e6


class ScriptCpu:
    """Measures calls of one script over a `MeteredConnection`."""

    def __init__(self) -> None:
        self._thread: MainThread | None = None
        self._begins = b""
        self._calls: list[float] = []
        self._sent, self._unread, self._before = 0, 0, 0.0

    @contextmanager
    def calls(self, thread: MainThread | None, sha: bytes) -> Iterator[list[float]]:
        """Append the milliseconds of each call of the script with this ``sha``; none if no thread.

        Calls that are sent together share their time evenly.
        """
        self._thread, self._begins, self._calls = thread, b"EVALSHA\r\n$40\r\n" + sha, []
        self._sent = self._unread = 0
        try:
            yield self._calls
        finally:
            self._thread = None

    def note_sent(self, packed: Any) -> None:
        """Read the clock before a call of the script."""
        if self._thread is None:
            return
        parts = [packed] if isinstance(packed, bytes) else packed
        if calls := sum(part.count(self._begins) for part in parts):
            if not self._unread:
                self._before, self._sent = self._thread.cpu_ms(), 0
            self._sent += calls
            self._unread += calls

    def note_read(self) -> None:
        """Read it again after the reply; after the last, if several calls were sent together."""
        if self._thread is not None and self._unread:
            self._unread -= 1
            if not self._unread:
                spent = self._thread.cpu_ms() - self._before
                self._calls += [spent / self._sent] * self._sent


class MeteredConnection(redis.Connection):
    """A connection that shows a `ScriptCpu` what it sends and reads."""

    def __init__(self, *, meter: ScriptCpu, **options: Any) -> None:
        self._meter = meter
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send a command, and note it."""
        self._meter.note_sent(command)
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Read a reply, and note it even if it is an error."""
        try:
            return super().read_response(*args, **options)
        finally:
            self._meter.note_read()
