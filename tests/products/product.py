"""What every product has."""

from __future__ import annotations

import inspect
import random
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import redis

from ackq import DeadLetter

from .outcome import Outcome, outcome_of

if TYPE_CHECKING:  # the previous release, which runs the campaign's workloads too, has no counters
    from ackq.core.counters import Counters
    from tests.histories.log import Log

#: Seconds that a lease lasts, unless a product counts in whole seconds.
LEASE = 0.5
#: Seconds for which a queue counts what happens, after it is read: longer than a run.
WATCH = 7 * 86_400

#: What all processes of a run, or of a history, have in common.
Settings = Mapping[str, Any]


class Got(NamedTuple):
    """A message as its consumer receives it."""

    body: bytes
    received: int | None  #: how often
    until: float | None  #: end of the lease by the server's clock
    handle: Any  #: what settles it


#: Ids and bodies of messages to store.
Entries = Sequence[tuple[str, bytes]]
#: What else the history records.
Noted = dict[str, Any]
Taken = tuple[list[Got], Noted]


class Product:
    """One product in one process. Its calls raise what ackq raises."""

    lease = LEASE
    #: Settings of the checker.
    rules: ClassVar[dict[str, Any]] = {}
    #: What may become of a message, with weights: "fused" is an ack with the next take.
    verbs: ClassVar[dict[str, int]] = {}
    #: Share of pushes that are delayed.
    delayed = 0.0
    #: Seconds by which the ends of delays are rounded.
    rounded = 0.0
    #: How many groups its messages have; 0: none.
    groups = 0
    #: Whether an error lists which messages of a push are stored.
    is_accounted = False
    #: Errors after which a request may have been applied, perhaps again and again.
    unsure: ClassVar[tuple[type[BaseException], ...]] = (redis.ConnectionError,)

    settings: Settings
    #: The client.
    queue: Any

    async def prepare(self) -> None:
        """Set up what must exist before the first push."""

    async def push(self, entries: Entries, delay: float, is_once: bool) -> Noted:
        """Store messages; return what the history is to know besides: the index, of a topic.

        ``is_once``: if the reply is lost, push again, unless the first push is known to be stored.
        """
        raise NotImplementedError

    async def take(self, n: int, timeout: float | None, done: Sequence[Any]) -> Taken:
        """Take messages, and ack ``done`` in the same call; return reader and index, of a topic."""
        raise NotImplementedError

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        """Settle messages, and return how many."""
        raise NotImplementedError

    async def stored(self) -> int:
        """Return how many messages are stored, in any state but dead."""
        raise NotImplementedError

    async def resume(self, log: Log) -> None:
        """Let the groups go on that dead letters stop, and write it down."""

    async def left(self) -> dict[str, Any]:
        """Return what is stored besides: ``dead``, ``findings`` and ``keys`` of the last event."""
        return {"dead": [], "findings": [], "keys": []}

    async def close(self) -> None:
        """Close every connection."""
        close = getattr(self.queue, "aclose", None) or self.queue.close
        await value(close())

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def attempt(self, call: Awaitable[Any], draw: random.Random, log: Log) -> Outcome:
        """Make a call, and say how it ended."""
        return await outcome_of(call, self.unsure)


def dead_left(dead: Sequence[DeadLetter], names: Sequence[str]) -> dict[str, Any]:
    """Return what the last event says of dead letters. A queue's key may have lost their bodies."""
    return {
        "dead": [[name, each.receive_count] for name, each in zip(names, dead, strict=True)],
        "findings": [f"{each.id}: {each.reason}" for each in dead if each.reason == "body missing"],
        "keys": [],
    }


def totals_left(counters: Counters, dead: Sequence[DeadLetter]) -> dict[str, Any]:
    """Return what the last event says of a queue's totals."""
    totals = asdict(counters)
    totals.pop("timeouts", None)  # no JSON object, since its keys are numbers
    return {"totals": totals, "reasons": Counter(each.reason for each in dead)}


async def value(result: Any) -> Any:
    """Return the result of a call, awaited if the client is asyncio's."""
    return await result if inspect.isawaitable(result) else result
