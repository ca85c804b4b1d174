"""The demo's processes, which the demo starts and ends by their process ids."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ackq.demo.journal import Reader
from ackq.demo.tally import PushTally, WorkTally

#: Longest time, in seconds, for a process to end when asked to.
PATIENCE = 5.0


class Child:
    """A process of the demo, with its journal and the tally of it."""

    def __init__(
        self, name: str, module: str, orders: Mapping[str, Any], url: str, folder: Path,
        tally: PushTally | WorkTally,
    ) -> None:  # fmt: skip
        self.name = name
        self.tally = tally
        self.state = "running"
        self.journal = folder / f"{name}.jsonl"
        self._reader = Reader(self.journal)
        self._errors = folder / f"{name}.err"
        command = [sys.executable, "-m", f"ackq.demo.{module}"]
        command.append(orjson.dumps({**orders, "journal": str(self.journal)}).decode())
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                # The URL may contain a password, and all users can see arguments.
                env={**os.environ, "ACKQ_DEMO_URL": url},
                process_group=0,  # Ctrl-C reaches only the demo, which then ends its processes
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def read(self) -> None:
        """Count the events that the process has written since the last call."""
        self.tally.add(self._reader.read())

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

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask the process to end; `end` waits for it."""
        self._process.terminate()
        self.thaw()

    def end(self) -> None:
        """Wait until the process has ended; kill it if that takes too long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
            self.state = "ended"
            return
        self.state = "hung"
        self.kill()

    def crash(self) -> str:
        """Return how the process failed, or an empty string if it ended as ordered."""
        code = self._process.returncode
        if self.state == "killed":
            return (
                "" if code == -signal.SIGKILL else f"{self.name} was killed, yet ended with {code}"
            )
        if code == 0:
            return ""
        lines = self._errors.read_text(errors="replace").splitlines()
        return f"{self.name} ended with {code}: {lines[-1] if lines else 'it said nothing'}"


class Worker(Child):
    """A worker's process."""

    tally: WorkTally

    def has_hands_full(self) -> bool:
        """Return whether it holds messages and is not acking. Only reliable while frozen."""
        return bool(self.tally.held) and not self.tally.acking


class Producer(Child):
    """A producer's process."""

    tally: PushTally
