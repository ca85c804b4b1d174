"""What simulated processes do, and what they write down."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from ackq.core.effects import Clock, Operation, Sleep
from tests.campaign.history import checksum
from tests.campaign.workloads.loops import body_of, id_of, names_of

from .journal import Journal
from .outcome import Outcome, outcome_of
from .products import Order, Product
from .world import Life

#: Seconds that nacks wait.
NACKS = (0.0, 0.1, 0.7)
#: Share of takes whose handlers end about when the lease does, or after it.
STRADDLING = 0.3


class Held(NamedTuple):
    """A message in hand, and its token in the history."""

    token: int
    handle: Any


class Producer:
    """Pushes until the run stops it."""

    def __init__(self, product: Product, journal: Journal, by: str, draw: random.Random) -> None:
        self._product = product
        self._journal = journal
        self._by = by
        self._draw = draw
        self._number = 0

    def live(self, until: float) -> Life:
        """Push until that time."""
        while (yield Clock()) < until:
            yield from self._push()
            yield Sleep(self._draw.expovariate(3))
        yield from outcome_of(self._product.close())

    def _push(self) -> Operation[None]:
        draw, product = self._draw, self._product
        size = draw.choice((1, 1, 2, 5))
        ids = names_of(self._by, self._number, size, product.sharers)
        self._number += size
        bodies = [body_of(each) for each in ids]
        delay = draw.choice(product.delays) if draw.random() < product.delayed else 0.0
        calls = [
            self._journal.begin(
                "push",
                by=self._by,
                ids=ids[part],
                sums=[checksum(each) for each in bodies[part]],
                delay=max(0.0, delay - product.rounded),
            )
            for part in self._parts(size)
        ]
        pushed = product.push(list(zip(ids, bodies, strict=True)), delay, draw.random() < 0.5)
        found = yield from outcome_of(pushed)
        for at, call in enumerate(calls):
            self._journal.end(call, _state_of(at, found), **(found.result or {}))

    def _parts(self, size: int) -> list[slice]:
        """Return the parts of a push of which each may have an outcome of its own."""
        if self._product.is_accounted:
            return [slice(at, at + 1) for at in range(size)]
        return [slice(0, size)]


def _state_of(at: int, found: Outcome) -> str:
    """Return what became of a part of a push."""
    account = found.account
    if account is not None and at in account.stored_positions:
        return "ok"
    if account is not None and at in account.not_stored_positions:
        return "fail"
    return found.state


class Consumer:
    """Takes messages and settles them in ways drawn at random, some of them too late."""

    def __init__(self, product: Product, journal: Journal, by: str, draw: random.Random) -> None:
        self._product = product
        self._journal = journal
        self._by = by
        self._draw = draw
        #: To be acked with the next take.
        self._finished: list[Held] = []

    def live(self, until: float) -> Life:
        """Take and settle until that time."""
        while (yield Clock()) < until:
            timeout = self._draw.choice((None, 0.2, 1.0))
            held = yield from self.take(self._draw.choice((1, 1, 2, 6)), timeout)
            if held:
                yield from self._handle(held)
            else:
                yield Sleep(0.02)
        yield from outcome_of(self._product.close())

    def drain(self, until: float) -> Life:
        """Take and ack until nothing is left; write what is, once that time has passed."""
        journal = self._journal
        while (stored := (yield from self._product.stored())) and (yield Clock()) < until:
            if held := (yield from self.take(5, 0.1)):
                yield from self.settle("ack", held)
        left = yield from self._product.left()
        journal.write(do="left", messages=stored, keys=[], **left)

    def take(self, n: int, timeout: float | None) -> Operation[list[Held]]:
        """Take messages; ack those that were finished."""
        journal = self._journal
        done, self._finished = self._finished, []
        call = journal.begin("ack", of=[each.token for each in done]) if done else 0
        begin = yield Clock()
        taken = self._product.take(n, timeout, [each.handle for each in done])
        found = yield from outcome_of(taken)
        if done:
            lost = [each.token for each in done if each.handle.lease_lost]
            # Several requests may have been sent, of which the last one failed.
            state = self._product.fused if found.state == "ok" else "unknown"
            journal.end(call, state, refused=lost)
        if found.state != "ok" or not found.result[0]:
            return []
        messages, about = found.result
        got = [
            [id_of(each.body), checksum(each.body), each.received, each.until] for each in messages
        ]
        first = journal.took(got, by=self._by, begin=begin, **about)
        return [Held(first + at, each.handle) for at, each in enumerate(messages)]

    def _handle(self, held: list[Held]) -> Operation[None]:
        draw, verbs = self._draw, self._product.verbs
        if draw.random() < STRADDLING:
            extends = draw.random() < 0.5
            if extends and draw.random() < 0.5:
                yield from self.settle("extend", held)
            yield Sleep(self._product.lease * draw.uniform(0.7, 2.7))
            if extends:
                yield from self.settle("extend", held)
        else:
            yield Sleep(draw.expovariate(1 / 0.02))
        verb = draw.choices([*verbs], [*verbs.values()])[0]
        if verb == "fused":
            self._finished += held
            return
        if verb == "forget":
            return
        yield from self.settle(verb, held)
        if draw.random() < 0.1:
            yield from self.settle(verb, held)  # as a caller would that is not sure

    def settle(self, verb: str, held: Sequence[Held]) -> Operation[None]:
        """Settle messages, and write the outcome of each."""
        delay = self._draw.choice(NACKS) if verb == "nack" else 0.0
        call = self._journal.begin(verb, of=[each.token for each in held], delay=delay)
        settled = self._product.settle(verb, [each.handle for each in held], delay)
        found = yield from outcome_of(settled)
        state, lost = found.state, []
        if state in ("ok", "refused"):
            lost = [each.token for each in held if any(each.handle is one for one in found.refused)]
            # What was settled before counts as no success.
            state = "ok" if found.result == len(held) - len(lost) else "gone"
        elif state == "fail":
            # Settles are sent again, and an earlier attempt may have been applied.
            state = "unknown"
        self._journal.end(call, state, refused=lost)


class Operator:
    """Does something to the queue now and then."""

    def __init__(self, product: Product, journal: Journal, by: str, draw: random.Random) -> None:
        self._product = product
        self._journal = journal
        self._draw = draw

    def live(self, until: float) -> Life:
        """Operate until that time."""
        while (yield Clock()) < until:
            yield Sleep(self._draw.expovariate(4))
            planned = yield from outcome_of(self._product.plan(self._draw))
            if planned.result is not None:
                yield from self._act(planned.result)
        yield from outcome_of(self._product.close())

    def _act(self, order: Order) -> Operation[None]:
        if not order.verb:
            yield from outcome_of(order.act())
            return
        call = self._journal.begin(order.verb, ids=order.ids, delay=order.delay)
        found = yield from outcome_of(order.act())
        state = found.state
        if state == "ok" and found.result < len(order.ids):
            state = "unknown" if found.result or order.is_resent else "fail"
        self._journal.end(call, state)
