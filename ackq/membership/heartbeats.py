"""Sends the heartbeats of a member of a consumer group, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ackq.membership.operations import Session


class Heartbeats:
    """Sends heartbeats of one session from `start` to `stop`. It is used once."""

    def __init__(self, session: Session, send: Callable[[Session], None]) -> None:
        self._session, self._send = session, send
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._thread is not None

    def start(self, name: str) -> None:
        """Start the thread, unless it was started before."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Let the thread send nothing more, and wait for its end."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._session.next_heartbeat):
            self._send(self._session)
