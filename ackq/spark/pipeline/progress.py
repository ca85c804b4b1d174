"""The progress of a pipeline, as a value and as lines of text."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from typing import Any

from ackq.spark.pipeline.failed_rows import Search
from ackq.spark.pipeline.micro_batches import BatchResult

#: Seconds over which the rate is averaged.
WINDOW = 30.0


@dataclass
class Progress:
    """The progress of a run. ``state`` is starting, waiting, working, stopping or stopped."""

    name: str
    state: str = "starting"
    #: Number of batches in this run, messages read, messages rejected, and rejections by reason.
    batches: int = 0
    rows: int = 0
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    #: Rows that stateful sinks left out, since they came later than their watermark allows.
    late: int = 0
    #: The last batch that was written; None before the first.
    batch: BatchResult | None = None
    #: Unfinished messages in the source, including the current batch; None: unknown.
    lag: int | None = None
    #: The search for the rows that made the current batch fail; None: none is going on.
    search: Search | None = None
    #: Seconds since the start, measured with a monotonic clock.
    elapsed: float = 0.0
    _began: float = field(default_factory=time.monotonic, repr=False)
    _recent: deque[tuple[float, int]] = field(default_factory=deque, repr=False)

    @property
    def written(self) -> int:
        """The number of messages that were not rejected."""
        return self.rows - self.rejected

    @property
    def rate(self) -> float:
        """Messages per second, over the last 30 seconds or since the start."""
        span = min(WINDOW, self.elapsed)
        since = self.elapsed - span
        return sum(rows for at, rows in self._recent if at >= since) / span if span else 0.0

    def tick(self) -> None:
        """Update ``elapsed``."""
        self.elapsed = time.monotonic() - self._began
        while self._recent and self._recent[0][0] < self.elapsed - WINDOW:
            self._recent.popleft()

    def add(self, batch: BatchResult) -> None:
        """Count a batch."""
        self.tick()
        self.batches += 1
        self.rows += batch.rows
        self.rejected += batch.rejected
        self.reasons += batch.reasons
        self.batch = batch
        self._recent.append((self.elapsed, batch.rows))

    def line(self) -> str:
        """Return the state as a line of text, or the last batch while the run goes on."""
        if self.state == "stopped":
            text = f"stopped  {self.batches:,} batches  {self.rows:,} rows"
            return f"{self.name}: {text}  {self.rejected:,} rejected{self._late}{self._behind}"
        if self.state == "stopping":
            return f"{self.name}: stopping after the current batch"
        if self.batch is None:
            return f"{self.name}: {self.state}{self._behind}"
        return self.batch_line()

    def search_line(self) -> str:
        """Return the search for failing rows as a line of text. Call it only during a search."""
        search = self.search
        assert search is not None
        text = f"the batch failed, looking for the rows that cause it  {search.jobs:,} jobs"
        return f"{self.name}: {text}  {search.found:,} found"

    def batch_line(self) -> str:
        """Return the last batch as a line of text. Call it only after a batch."""
        batch = self.batch
        assert batch is not None
        rate = f"  {batch.rows / batch.seconds:,.0f}/s" if batch.seconds else ""
        text = f"batch {batch.number}  {batch.rows:,} rows{rate}  {batch.rejected:,} rejected"
        return f"{self.name}: {text}{self._late}{self._behind}"

    @property
    def _late(self) -> str:
        return f"  {self.late:,} late" if self.late else ""

    @property
    def _behind(self) -> str:
        return "" if self.lag is None else f"  lag {self.lag:,}"

    def as_dict(self) -> dict[str, Any]:
        """Return the progress for JSON. Durations are in seconds."""
        batch = self.batch
        return {
            "name": self.name,
            "state": self.state,
            "batches": self.batches,
            "rows": self.rows,
            "written": self.written,
            "rejected": self.rejected,
            "reasons": dict(self.reasons),
            "late": self.late,
            "rows_per_second": round(self.rate, 1),
            "lag": self.lag,
            "elapsed": round(self.elapsed, 3),
            "search": None if self.search is None else asdict(self.search),
            "batch": None
            if batch is None
            else {
                "number": batch.number,
                "rows": batch.rows,
                "rejected": batch.rejected,
                "seconds": round(batch.seconds, 3),
            },
        }
