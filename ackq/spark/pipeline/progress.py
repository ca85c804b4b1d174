"""How far a pipeline is, as a value and as lines of text."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from ackq.spark.pipeline.batches import Batch

#: Seconds over which the rate is taken.
WINDOW = 30.0


@dataclass
class Progress:
    """What a run did so far. ``state`` is starting, waiting, working, stopping or stopped."""

    name: str
    state: str = "starting"
    #: Batches of this run; messages they read; how many of these were rejected, and why.
    batches: int = 0
    rows: int = 0
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    #: The batch that was written last; None before the first.
    batch: Batch | None = None
    #: Messages in the source that are not done, those of the batch in hand among them; None: not
    #: known.
    lag: int | None = None
    #: Seconds since the start, by a monotonic clock.
    elapsed: float = 0.0
    _began: float = field(default_factory=time.monotonic, repr=False)
    _recent: deque[tuple[float, int]] = field(default_factory=deque, repr=False)

    @property
    def written(self) -> int:
        """Messages that were not rejected."""
        return self.rows - self.rejected

    @property
    def rate(self) -> float:
        """Messages a second, over the last 30 seconds or since the start."""
        span = min(WINDOW, self.elapsed)
        since = self.elapsed - span
        return sum(rows for at, rows in self._recent if at >= since) / span if span else 0.0

    def tick(self) -> None:
        """Let the time pass."""
        self.elapsed = time.monotonic() - self._began
        while self._recent and self._recent[0][0] < self.elapsed - WINDOW:
            self._recent.popleft()

    def add(self, batch: Batch) -> None:
        """Count a batch."""
        self.tick()
        self.batches += 1
        self.rows += batch.rows
        self.rejected += batch.rejected
        self.reasons += batch.reasons
        self.batch = batch
        self._recent.append((self.elapsed, batch.rows))

    def line(self) -> str:
        """Return the state as a line of text; the last batch where there is nothing newer."""
        if self.state == "stopped":
            text = f"stopped  {self.batches:,} batches  {self.rows:,} rows"
            return f"{self.name}: {text}  {self.rejected:,} rejected{self._behind}"
        if self.state == "stopping":
            return f"{self.name}: stopping after the batch in hand"
        if self.batch is None:
            return f"{self.name}: {self.state}{self._behind}"
        return self.batch_line()

    def batch_line(self) -> str:
        """Return the last batch, which there has to be, as a line of text."""
        batch = self.batch
        assert batch is not None
        rate = f"  {batch.rows / batch.seconds:,.0f}/s" if batch.seconds else ""
        text = f"batch {batch.number}  {batch.rows:,} rows{rate}  {batch.rejected:,} rejected"
        return f"{self.name}: {text}{self._behind}"

    @property
    def _behind(self) -> str:
        return "" if self.lag is None else f"  lag {self.lag:,}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON; ``seconds`` and rates are in seconds."""
        batch = self.batch
        return {
            "name": self.name, "state": self.state, "batches": self.batches, "rows": self.rows,
            "written": self.written, "rejected": self.rejected, "reasons": dict(self.reasons),
            "rows_per_second": round(self.rate, 1), "lag": self.lag,
            "elapsed": round(self.elapsed, 3),
            "batch": None if batch is None else {
                "number": batch.number, "rows": batch.rows, "rejected": batch.rejected,
                "seconds": round(batch.seconds, 3),
            },
        }  # fmt: skip
