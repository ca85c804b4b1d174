"""The list queue under an engine that replays batches, as Spark does: claims."""

from __future__ import annotations

import contextlib
import itertools
import random
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ackq.core.claim_groups import Claim
from ackq.errors import ClaimLost, Fenced
from ackq.queue import claims
from tests.products.bodies import body_of, id_of
from tests.products.product import Settings, Taken
from tests.simulation.steps import Steps, sleep

from .listed import ListQueue
from .product import Order, SimulatedProduct

if TYPE_CHECKING:
    from tests.simulation.world import World

#: Seconds that a claim lasts: the shortest there is, or longer than a history.
TIMEOUTS = (1.0, 60.0)
#: Seconds by which a lease may last longer than was asked for.
JITTER = 0.07


@dataclass
class Checkpoint:
    """What an engine keeps where no death reaches it."""

    #: The batches in order. A batch is planned before it is read, and never planned again.
    planned: list[Claim] = field(default_factory=list)
    #: What the sink has of each batch. A batch that is written again replaces what was there.
    rows: dict[int, list[str]] = field(default_factory=dict)
    #: How many batches are finished.
    finished: int = 0


class ClaimedListQueue(ListQueue):
    """The list queue, read in claims.

    Most consumers are engines, others pop. All engines of a history are the same query, one after
    the other or at the same time: they share a checkpoint, and the last one to begin fences the
    others.
    """

    has_unique = False  # a claim leaves their notes behind

    rules: ClassVar[dict[str, Any]] = {}
    #: The verbs of consumers that pop. A claim forgets receive counts, and the end of a lease shows
    #: the order of deliveries only if no clock is set.
    verbs: ClassVar[dict[str, int]] = {"ack": 60, "fused": 20, "nack": 10, "release": 10}
    sets_clock = False
    checkpoint = Checkpoint()

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        timeout = draw.choice(TIMEOUTS)
        # While no claim ends, every message is acked once, or becomes one row.
        is_exact, end = timeout > min(TIMEOUTS), draw.choice(("right", "left"))
        return {
            **SimulatedProduct.draw_settings(draw),
            "max_receives": None,
            "timeout": timeout,
            "rows": is_exact,
            "pop_from": end,
        }

    @classmethod
    @contextlib.contextmanager
    def environment(cls, world: World) -> Iterator[None]:
        cls.checkpoint = Checkpoint()
        with super().environment(world):
            yield

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._group = claims.Group(self.queue._spec, "query", settings["timeout"])
        self._draw = random.Random(secrets.token_hex(8))
        self._pops = self._draw.random() < 0.3
        #: Claims that were found at the start, and are to be planned first. None: this engine has
        #: not started, or its start failed halfway.
        self._claims: list[Claim] | None = None

    async def prepare(self) -> None:
        self._pops = False  # the last consumer finishes what engines have planned

    async def take(self, n: int, timeout: float | None, done: Sequence[Any]) -> Taken:
        """Pop; or take nothing, but process a batch."""
        if self._pops:
            found, about = await super().take(n, timeout, done)
            return [each._replace(received=None) for each in found], about
        try:
            if self._claims is None:
                await Steps(claims.begin(self._group))
                self._claims = await Steps(claims.open_claims(self._group))
            await Steps(claims.beat(self._group))
            await self._process(5 * n)
        except Fenced:
            self._claims = None
            await sleep(0.3)  # its user starts it again
        return [], {}

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        if verb in ("nack", "release"):
            await sleep(JITTER)  # so that the next lease ends later than this one would
        return await super().settle(verb, handles, delay)

    async def _process(self, most: int) -> None:
        """Plan the next batch, read it, write it and finish it."""
        kept = self.checkpoint
        number, before = (
            kept.finished,
            kept.planned[kept.finished - 1].batch if kept.finished else 0,
        )
        if before:
            # What is finished is never read again.
            await Steps(claims.ack(self._group, before, self._draw.choice((0, 5))))
            if self._draw.random() < 0.3:
                await Steps(claims.forget(self._group, before))
        if number == len(kept.planned):
            claim = await self._next(before, most)
            if claim is None or number != len(kept.planned):
                return  # nothing is there; or another engine has planned the batch
            kept.planned.append(claim)
        claim = kept.planned[number]
        try:
            rows = await self._read(claim)
        except ClaimLost:
            if kept.finished > number or self._group.timeout > min(TIMEOUTS):
                return  # another engine has finished it; or it is lost, and found to be in the end
            rows = []  # its messages are in the queue again
        kept.rows[number] = rows
        await sleep(self._draw.expovariate(1 / 0.02))
        kept.finished = max(kept.finished, number + 1)

    async def _next(self, after: int, most: int) -> Claim | None:
        found = [each for each in self._claims or () if each.batch > after]
        if found:
            return found[0]
        claim: Claim | None = await Steps(claims.claim(self._group, after, most, None, None))
        return claim

    async def _read(self, claim: Claim) -> list[str]:
        rows: list[str] = []
        for start in range(0, claim.rows, 4):
            count = min(4, claim.rows - start)
            bodies = await Steps(claims.read(self._group, claim.batch, start, count))
            rows += [id_of(body) if body == body_of(id_of(body)) else repr(body) for body in bodies]
        return rows

    async def plan(self, draw: random.Random) -> Order | None:
        """Do as with any list queue, or return all claims to it where that repeats no row."""
        if self._group.timeout == min(TIMEOUTS) and draw.random() < 0.3:
            return Order("", [], lambda: Steps(claims.end_holds(self.queue._spec)))
        return await super().plan(draw)

    async def left(self) -> dict[str, Any]:
        rows = list(itertools.chain.from_iterable(self.checkpoint.rows.values()))
        if self._group.timeout == min(TIMEOUTS):
            rows = sorted(set(rows))  # a claim that has ended is delivered again
        return {**(await super().left()), "rows": rows}
