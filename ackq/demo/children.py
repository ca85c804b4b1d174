"""The demo's processes, which the demo starts and ends by their process ids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ackq.demo.journal import Reader, Tally

#: Longest time, in seconds, for a process to end when asked to.
STOP_TIMEOUT = 5.0


class Child:
    """A producer's or a worker's process, with its journal and the tally of it."""

    def __init__(
        self,
        role: str,
        number: int,
        orders: Mapping[str, Any],
        url: str,
        folder: Path,
        digests: Mapping[str, str],
    ) -> None:
        self.name = f"{'worker' if role == 'work' else 'producer'} {number}"
        self.tally = Tally(digests)
        self.state = "running"
        journal, self._errors = folder / f"{self.name}.jsonl", folder / f"{self.name}.err"
        self._reader = Reader(journal)
        settings = orjson.dumps({**orders, "journal": str(journal)}).decode()
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ackq.demo.processes", role, settings],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                # The URL may contain a password, and all users can see arguments.
                env={**os.environ, "ACKQ_DEMO_URL": url},
                process_group=0,  # Ctrl-C reaches only the demo, which then ends its processes
            )
        self.pid = self._process.pid

    def read(self) -> bool:
        """Count the events since the last call, and return whether there were any."""
        events = self._reader.read()
        self.tally.add(events)
        return bool(events)

    def ended(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def freeze(self) -> bool:
        """Freeze the process and count its events so far. Return False if it has ended."""
        self._process.send_signal(signal.SIGSTOP)
        while not os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG):
            if self.ended():
                return False
            time.sleep(0.001)
        self.read()
        return True

    def thaw(self) -> None:
        """Resume a frozen process."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self, state: str = "killed") -> None:
        """Kill the process, as a crash would."""
        self._process.kill()
        self._process.wait()
        self.state = state

    def stop(self) -> None:
        """Ask the process to end; `end` waits for it."""
        self._process.terminate()
        self.thaw()

    def end(self) -> None:
        """Wait until the process has ended; kill it if that takes too long."""
        try:
            self._process.wait(STOP_TIMEOUT)
            self.state = "ended"
        except subprocess.TimeoutExpired:
            self.kill("hung")

    def crash(self) -> str:
        """Return how the process failed, or an empty string if it ended as ordered."""
        code = self._process.returncode
        if code == (-signal.SIGKILL if self.state == "killed" else 0):
            return ""
        lines = self._errors.read_text(errors="replace").splitlines()
        return f"{self.name} ended with {code}: {lines[-1] if lines else 'it wrote no error'}"
