"""Tells systemd when the workers are ready, alive and stopping, as ``sd_notify`` does."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Self

from ackq.core.client import Closable

#: Names the socket of the service manager.
SOCKET_VARIABLE = "NOTIFY_SOCKET"
#: Holds the ``WatchdogSec=`` of the unit, in microseconds.
WATCHDOG_VARIABLE = "WATCHDOG_USEC"


class Service(Closable):
    """The unit that runs this process. Without a service manager, do nothing.

    A message is never waited for: if it cannot be sent, it is dropped. The watchdog's messages are
    repeated; without them, systemd restarts the service.
    """

    def __init__(self) -> None:
        self._address = os.environ.get(SOCKET_VARIABLE, "")
        self._pause = int(os.environ.get(WATCHDOG_VARIABLE) or 0) / 1e6 / 3
        self._socket: socket.socket | None = None
        self._ready = self._stopping = False
        self._due = 0.0

    def __enter__(self) -> Self:
        """Open the socket."""
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        return self

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def show(self, *, ready: bool, healthy: bool, stopping: bool) -> None:
        """Report a change, and feed the watchdog while the workers are healthy."""
        if ready and not self._ready:
            self._ready = self._send("READY=1")
        if stopping and not self._stopping:
            self._stopping = self._send("STOPPING=1")
        if healthy and self._pause and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._pause
            self._send("WATCHDOG=1")

    def _send(self, text: str) -> bool:
        if self._socket is None:
            return False
        with contextlib.suppress(OSError):
            # "@" stands for the NUL byte of an abstract address.
            self._socket.sendto(text.encode(), self._address.replace("@", "\0", 1))
            return True
        return False
