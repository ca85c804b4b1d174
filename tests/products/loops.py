"""What producers and consumers do with a product, and what they write down."""

import random
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.histories.log import Log

from .bodies import body_of, checksum, group_of, id_of, names_of
from .outcome import Outcome
from .product import Product

#: Times that the last consumer asks in vain, at least, before it gives up.
VAIN = 20
#: Seconds until a producer or consumer goes on after an error, or after nothing was there.
PAUSE = 0.02


@dataclass(frozen=True)
class Habits:
    """What producers and consumers draw from."""

    batches: tuple[int, ...]  #: messages of one push, or one take
    #: Share of takes whose handlers end about when, or after, the lease does.
    straddling: float
    extending: float  #: share of these handlers that extend their leases
    #: What may become of a message, with weights; "forget" is nothing.
    verbs: Mapping[str, int]
    delays: tuple[float, ...]  #: seconds that delayed pushes wait
    nacks: tuple[float, ...]  #: seconds that nacks wait
    timeouts: tuple[float | None, ...] = (0.1,)  #: seconds that takes wait
    sharers: int = 1  #: messages in a row that have the same id
    once: float = 0.0  #: share of pushes that are sent again if their replies are lost
    working: float = 0.0  #: mean seconds of the other handlers
    unsure: tuple[str, ...] = ("ack",)  #: verbs of which a few are called twice


def is_settled(handle: Any) -> bool:
    """Whether a reply says that this holder settled the message. A topic's batches do not know."""
    return getattr(handle, "settled_by", None) is not None


class Held(NamedTuple):
    """A message in hand, and its token in the history."""

    token: int
    handle: Any


def refusals(lost: Sequence[Held]) -> dict[str, list[int]]:
    """Return what the history says of refused messages: of some the holder cannot know."""
    states: dict[str, list[int]] = {"refused": [], "unknown": []}
    for each in lost:
        unsure = getattr(each.handle, "maybe_settled", False)
        states["unknown" if unsure else "refused"].append(each.token)
    return states


class Loop:
    """One thread or task, and its calls."""

    def __init__(
        self, product: Product, habits: Habits, log: Log, by: str, draw: random.Random
    ) -> None:
        self._product = product
        self._habits = habits
        self._log = log
        self._by = by
        self._draw = draw

    async def outcome(self, call: Awaitable[Any]) -> Outcome:
        """Make a call, and say how it ended."""
        found = await self._product.attempt(call, self._draw, self._log)
        if found.state in ("unknown", "fail"):
            await self._product.sleep(PAUSE)
        return found


class Producer(Loop):
    """Pushes."""

    _number = 0

    @property
    def _unique(self) -> int:
        """How many ids the messages have, of which only one of each is stored at a time."""
        unique: int = self._product.settings.get("unique", 0)
        return unique

    async def push(self) -> None:
        """Push some messages."""
        product, habits, draw, log = self._product, self._habits, self._draw, self._log
        size = draw.choice(habits.batches)
        ids = names_of(self._by, self._number, size, habits.sharers, self._unique, product.groups)
        self._number += size
        bodies = [body_of(message_id) for message_id in ids]
        sums = [checksum(body) for body in bodies]
        delay = draw.choice(habits.delays) if draw.random() < product.delayed else 0.0
        about: dict[str, Any] = {"delay": max(0.0, delay - product.rounded)}
        if "confirm" in product.settings:
            about["kept"] = True
        parts, calls = self._parts(size), []
        for part in parts:
            if product.groups:
                about["groups"] = [group_of(each) for each in ids[part]]
            calls.append(log.begin("push", by=self._by, ids=ids[part], sums=sums[part], **about))
        entries = list(zip(ids, bodies, strict=True))
        is_once = draw.random() < habits.once
        found = await self.outcome(product.push(entries, delay, is_once))
        for part, call in zip(parts, calls, strict=True):
            state = found.state_at(part.start) if len(parts) == size else found.state
            log.end(call, state, **(found.result or {}))

    def _parts(self, size: int) -> list[slice]:
        """Return the parts of a push of which each may have an outcome of its own."""
        if self._product.is_accounted or self._unique:
            return [slice(at, at + 1) for at in range(size)]
        return [slice(0, size)]


class Consumer(Loop):
    """Takes messages and settles them in ways drawn at random, some of them too late."""

    #: To be acked with the next take.
    _finished: Sequence[Held] = ()

    async def work(self) -> None:
        """Take messages, handle and settle them."""
        draw, habits = self._draw, self._habits
        held = await self.take(draw.choice(habits.batches), draw.choice(habits.timeouts))
        if held:
            await self._handle(held)
        elif held is not None:
            await self._product.sleep(PAUSE)

    async def finish(self) -> None:
        """Ack what is to be acked with the next take."""
        if self._finished:
            await self.take(1, 0.1)

    async def drain(self, within: float) -> int:
        """Take and ack until nothing is left, or in vain for this long; return how much is left."""
        vain: list[float] = []
        while stored := await self._product.stored():
            await self._product.resume(self._log)
            held = await self.take(1000, 0.1, writes_nothing=True)
            if held:
                await self.settle("ack", held)
                vain = []
            elif held is not None:
                vain.append(self._log.now())
                if len(vain) > VAIN and vain[-1] - vain[0] > within + 1:
                    break
        return stored

    async def take(
        self, n: int, timeout: float | None, writes_nothing: bool = False
    ) -> list[Held] | None:
        """Take messages, and ack those that were finished; return None if nothing was answered."""
        log = self._log
        done, self._finished = self._finished, ()
        call = log.begin("ack", of=[each.token for each in done]) if done else 0
        begin = log.now()
        taken = self._product.take(n, timeout, [each.handle for each in done])
        found = await self.outcome(taken)
        if done:
            lost = [each for each in done if getattr(each.handle, "lease_lost", False)]
            state = "unknown"  # several requests may have been sent, of which the last one failed
            if found.state == "ok":
                # An ack whose reply was lost is sent again alone, and may then find nothing.
                sure = all(is_settled(each.handle) for each in done if each not in lost)
                state = "ok" if sure else "gone"
            log.end(call, state, **refusals(lost))
        if found.state != "ok":
            return None
        messages, about = found.result
        if not messages and not writes_nothing:
            return []
        got = [
            [id_of(message.body), checksum(message.body), message.received, message.until]
            for message in messages
        ]
        first = log.took(got, by=self._by, begin=begin, **about)
        return [Held(first + at, each.handle) for at, each in enumerate(messages)]

    async def _handle(self, held: Sequence[Held]) -> None:
        product, draw, habits = self._product, self._draw, self._habits
        if draw.random() < habits.straddling:
            extends = draw.random() < habits.extending
            if extends and draw.random() < 0.5:
                await self.settle("extend", held)
            await product.sleep(product.lease * draw.uniform(0.7, 2.7))
            if extends:
                await self.settle("extend", held)
        elif habits.working:
            await product.sleep(draw.expovariate(1 / habits.working))
        verb = draw.choices([*habits.verbs], [*habits.verbs.values()])[0]
        if verb == "fused":
            self._finished = held
        elif verb != "forget":
            await self.settle(verb, held)
            if verb in habits.unsure and draw.random() < 0.1:
                await self.settle(verb, held)  # as a caller would that is not sure

    async def settle(self, verb: str, held: Sequence[Held]) -> None:
        """Settle messages, and write the outcome of each."""
        delay = self._draw.choice(self._habits.nacks) if verb == "nack" else 0.0
        call = self._log.begin(verb, of=[each.token for each in held], delay=delay)
        handles = [each.handle for each in held]
        found = await self.outcome(self._product.settle(verb, handles, delay))
        state, lost = found.state, []
        if state in ("ok", "refused"):
            lost = [each for each in held if any(each.handle is one for one in found.refused)]
            # What was settled before counts as no success.
            state = "ok" if found.result == len(held) - len(lost) else "gone"
        elif state == "fail":
            # Settles are sent again, and an earlier attempt may have been applied.
            state = "unknown"
        self._log.end(call, state, **refusals(lost))
