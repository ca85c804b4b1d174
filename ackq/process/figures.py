"""The figures of worker processes, which their parent adds up and serves on one port.

Each process writes its figures to a file in the parent's private folder, as it does for its health.
When a process ends, the parent keeps its counts, so that counters never go back.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import orjson

from ackq.process.retirement import Recycling
from ackq.worker.effects import Routine
from ackq.worker.figures import Figures, Handled, Snapshot
from ackq.worker.health import Health
from ackq.worker.state import State


class ChildHealth(Health):
    """The health check of a child. It also reports figures, and ends a child that did enough."""

    def __init__(
        self,
        file: str,
        stalled_after: float,
        figures_file: str | None,
        recycling: Recycling | None,
    ) -> None:
        super().__init__(file=file, stalled_after=stalled_after)
        self._figures_file = Path(figures_file) if figures_file is not None else None
        if self._figures_file is not None:
            self.figures = Figures()
        self._recycling = recycling
        self._written = -1.0

    def watch(self, state: State) -> Routine[None]:
        """Check the worker, and write its figures as often."""
        yield from super().watch(state)
        if self._recycling is not None:
            self._recycling.watch(state)
        if self._seen != self._written:
            self._written = self._seen
            self._write()

    def close(self) -> None:
        """Stop, and write that no handler runs any more."""
        super().close()
        if self.figures is not None:
            self.figures.busy = 0
        self._write()

    def _write(self) -> None:
        if self._figures_file is None or self.figures is None:
            return
        new = self._figures_file.with_suffix(".new")
        with contextlib.suppress(OSError):
            new.write_bytes(orjson.dumps(self.figures.snapshot()))
            os.replace(new, self._figures_file)  # never half a file


class Reported:
    """The figures of all processes of a plan together, also of those that have ended."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._ended = Snapshot(time.time())

    def snapshot(self) -> Snapshot:
        """Return the sum. The running processes' parts are up to a second old."""
        with self._lock:
            total = Snapshot(self._ended.since)
            total.add_ended(self._ended)
            for file in self._files:
                if written := _read(file):
                    total.add(written)
            return total

    def end(self, file: Path) -> None:
        """Keep the counts of a process that has ended, before another one writes to its file."""
        with self._lock:
            if written := _read(file):
                self._ended.add_ended(written)
            file.unlink(missing_ok=True)


def _read(file: Path) -> Snapshot | None:
    try:
        fields = orjson.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    queues = {name: Handled(**handled) for name, handled in fields.pop("queues").items()}
    return Snapshot(queues=queues, **fields)
