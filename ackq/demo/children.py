"""The demo's processes: started by it, and ended by it, each by its own process id."""

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

#: Seconds that a process may take to end when it is asked to.
PATIENCE = 5.0


class Child:
    """A process of the demo, its journal, and what the journal adds up to."""

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
                # The URL may hold a password, and arguments are for everybody to see.
                env={**os.environ, "ACKQ_DEMO_URL": url},
                process_group=0,  # Ctrl-C is for the demo, which then ends its processes
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def read(self) -> None:
        """Count what the process has written since the last time."""
        self.tally.add(self._reader.read())

    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def freeze(self) -> bool:
        """Stop the process where it is, and count what it had written. False: it has ended."""
        self._process.send_signal(signal.SIGSTOP)
        while not os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG):
            if self.ended():
                return False
            time.sleep(0.001)
        self.read()
        return True

    def thaw(self) -> None:
        """Let a stopped process go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process as a crash does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask the process to end; `end` waits for it."""
        self._process.terminate()
        self.thaw()

    def end(self) -> None:
        """Wait until the process has ended, and kill it if that takes too long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
            self.state = "ended"
            return
        self.state = "hung"
        self.kill()

    def crash(self) -> str:
        """Return how the process failed, or an empty string if it ended as it was told to."""
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
        """Whether it holds messages and acks none of them now; true only of a frozen one."""
        return bool(self.tally.held) and not self.tally.acking


class Producer(Child):
    """A producer's process."""

    tally: PushTally
