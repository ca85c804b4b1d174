"""A producer that stages rows and commits them in batches, as Spark's sink does."""

import random
from collections.abc import Sequence
from typing import Any

from ackq.core.effects import Operation
from ackq.staging import operations
from ackq.staging.keys import Staged
from tests.products.bodies import body_of, checksum
from tests.products.outcome import Outcome

from .journal import Journal
from .products import SimulatedProduct
from .steps import Steps, sleep

Entries = Sequence[tuple[str, bytes]]


async def write(
    product: SimulatedProduct, log: Journal, by: str, draw: random.Random, until: float
) -> None:
    """Write batch after batch until that time."""
    await _Writer(product, log, by, draw).live(until)


class _Writer:
    """Writes batch after batch.

    Whoever takes the place of a dead writer asks for the last batch, and writes the next one. If
    that one was begun, it has the same messages again.
    """

    def __init__(
        self, product: SimulatedProduct, journal: Journal, by: str, draw: random.Random
    ) -> None:
        self._product = product
        self._journal = journal
        self._by = by
        self._writer = by.split(".")[0]
        self._draw = draw
        self._attempts = 0
        self._spec, self._move = product.staging(self._writer)

    async def live(self, until: float) -> None:
        """Write until that time."""
        batch: int | None = None
        while self._journal.now() < until:
            if batch is None:
                last = await self._outcome(operations.committed(self._spec))
                if last.state == "ok":
                    batch = 0 if last.result is None else last.result + 1
            else:
                batch += await self._write(batch)
            await sleep(self._draw.expovariate(3))

    async def _write(self, batch: int) -> bool:
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
        staged = await self._outcome(self._stage(batch, tasks, delay))
        if staged.state == "ok":
            commit = operations.commit(self._spec, batch, staged.result, self._move)
            found = await self._outcome(commit)
            # It may have been applied before the error.
            state = "ok" if found.state == "ok" else "unknown"
        else:
            state = "fail"  # nothing is visible before the commit
        for call in calls:
            self._journal.end(call, state)
        if state != "ok" and self._draw.random() < 0.3:
            await self._outcome(operations.abort(self._spec, batch))
        return state == "ok"

    async def _outcome(self, steps: Operation[Any]) -> Outcome:
        return await self._product.attempt(Steps(steps), self._draw, self._journal)

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
            tasks.append([(message_id, body_of(message_id)) for message_id in ids])
        is_delayed = draw.random() < self._product.delayed
        return tasks, draw.choice(self._product.delays) if is_delayed else 0.0
