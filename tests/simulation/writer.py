"""A producer that stages rows and commits them in batches, as Spark's sink does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ackq.core.effects import Clock, Operation, Sleep
from ackq.staging import operations
from ackq.staging.keys import Staged
from tests.campaign.history import checksum
from tests.campaign.workloads.loops import body_of

from .journal import Journal
from .outcome import outcome_of
from .products import Product
from .world import Life

Entries = Sequence[tuple[str, bytes]]


class Writer:
    """Writes batch after batch.

    Whoever takes the place of a dead writer asks for the last batch, and writes the next one. If
    that one was begun, it has the same messages again.
    """

    def __init__(self, product: Product, journal: Journal, by: str, draw: random.Random) -> None:
        self._product = product
        self._journal = journal
        self._by = by
        self._writer = by.split(".")[0]
        self._draw = draw
        self._attempts = 0
        self._spec, self._move = product.staging(self._writer)

    def live(self, until: float) -> Life:
        """Write until that time."""
        batch: int | None = None
        while (yield Clock()) < until:
            if batch is None:
                last = yield from outcome_of(operations.committed(self._spec))
                if last.state == "ok":
                    batch = 0 if last.result is None else last.result + 1
            else:
                batch += yield from self._write(batch)
            yield Sleep(self._draw.expovariate(3))

    def _write(self, batch: int) -> Operation[bool]:
        """Stage and commit a batch; return whether it is committed."""
        tasks, delay = self._messages(batch)
        # The rows of a task are in order, and tasks are not.
        calls = [
            self._journal.begin(
                "push",
                by=f"{self._by}/{task}",
                ids=[key for key, _ in entries],
                sums=[checksum(body) for _, body in entries],
                delay=delay,
            )
            for task, entries in enumerate(tasks)
        ]
        staged = yield from outcome_of(self._stage(batch, tasks, delay))
        if staged.state == "ok":
            found = yield from outcome_of(
                operations.commit(self._spec, batch, staged.result, self._move)
            )
            # It may have been applied before the error.
            state = "ok" if found.state == "ok" else "unknown"
        else:
            state = "fail"  # nothing is visible before the commit
        for call in calls:
            self._journal.end(call, state)
        if state != "ok" and self._draw.random() < 0.3:
            yield from outcome_of(operations.abort(self._spec, batch))
        return state == "ok"

    def _stage(self, batch: int, tasks: Sequence[Entries], delay: float) -> Operation[list[Staged]]:
        due = None
        if delay:
            due = (yield from operations.now()) + round(delay * 1_000_000)
        staged = []
        for entries in tasks:
            rows: Any = self._product.rows(entries, due)
            if self._draw.random() < 0.2:  # by a slower attempt, which is not committed
                yield from operations.stage(self._spec, batch, self._attempt(), *rows)
            staged.append(self._attempt())
            yield from operations.stage(self._spec, batch, staged[-1], *rows)
        return staged

    def _attempt(self) -> Staged:
        self._attempts += 1
        return Staged(f"{self._by}-{self._attempts}")

    def _messages(self, batch: int) -> tuple[list[Entries], float]:
        """Return the messages of each task of a batch, and their delay: always the same."""
        draw = random.Random(f"{self._product.settings['salt']} {self._writer} {batch}")
        tasks: list[Entries] = []
        number = 0
        for _ in range(draw.choice((1, 1, 2, 3))):
            size = draw.choice((1, 2, 5, 10))
            ids = [f"{self._writer}-{batch}-{number + n}" for n in range(size)]
            number += size
            tasks.append([(each, body_of(each)) for each in ids])
        is_delayed = draw.random() < self._product.delayed
        return tasks, draw.choice(self._product.delays) if is_delayed else 0.0
