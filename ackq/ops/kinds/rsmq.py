"""Queues of RSMQ, as operators see them: their names are ``<namespace>:<queue>``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ackq.core.client import Closable
from ackq.core.effects import Operation
from ackq.core.inspection_results import DeadLetter, Found
from ackq.core.io.outside import SYSTEM
from ackq.core.search_terms import WITHIN, OnProgress
from ackq.ops import readings
from ackq.ops.kinds.kind import Kind, Opened, Redis, age_of_first, has_type, unchecked
from ackq.ops.readings import Asked, Reading, Totals

if TYPE_CHECKING:
    from ackq.rsmq.values import RSMQCounters


class _Queue(Closable):
    """A queue of a namespace, with the methods of other queues."""

    def __init__(self, client: Redis, name: str) -> None:
        from ackq.rsmq.client import RSMQ

        namespace, self._queue = _split(name)
        self.name = name
        self._rsmq = RSMQ(client, namespace)

    def stats(self) -> dict[str, Any]:
        """Return the attributes, and the number of dead letters, which is none of them."""
        counted = self._rsmq.counters(self._queue)
        return asdict(self._rsmq.get_queue_attributes(self._queue)) | {"dead": counted.letters}

    def counters(self, window: float) -> RSMQCounters:
        """Return RSMQ's own counts, which need no watching."""
        return self._rsmq.counters(self._queue)

    def find_all(
        self, id: str, *, within: int | None = WITHIN, on_progress: OnProgress | None = None
    ) -> list[Found]:
        """Return the message with an id, if it is there."""
        found = self._rsmq.find(self._queue, id, within=within, on_progress=on_progress)
        return [found] if found else []

    def dead_letters(self, n: int = 100, *, after: str | None = None) -> list[DeadLetter]:
        from ackq.rsmq.values import as_letter

        return [*map(as_letter, self._rsmq.dead_letters(self._queue, n, after=after))]

    def redrive(self, n: int | None = None, *, entries: Iterable[str] = ()) -> int:
        return self._rsmq.redrive(self._queue, n, entries=entries)

    def drop_dead_letters(self, *entries: str) -> int:
        return self._rsmq.drop_dead_letters(self._queue, *entries)

    def close(self) -> None:
        self._rsmq.close()


def _split(name: str) -> tuple[str, str]:
    namespace, _, queue = name.rpartition(":")
    return namespace, queue


def _open(client: Redis, name: str) -> Opened:
    queue = _Queue(client, name)
    return Opened(RSMQ_QUEUE, name, queue, lambda: (queue,))


def _read(name: str, consumers: Sequence[str], asked: Asked) -> Operation[Reading]:
    from ackq.rsmq import operations
    from ackq.rsmq.values import RSMQSpec

    namespace, queue = _split(name)
    spec = RSMQSpec(namespace, outside=SYSTEM)
    attributes = yield from operations.attributes(spec, queue)
    counted = yield from operations.counters(spec, queue)
    states = {
        "ready": attributes.msgs - attributes.hiddenmsgs,
        "hidden": attributes.hiddenmsgs,
        "dead": counted.letters,
    }
    zset = spec.keys(queue).zset
    age = (yield from age_of_first(zset, 0.001, asked.now)) if states["ready"] else 0.0
    counts = {"pushed": counted.pushed, "taken": counted.taken, "acked": counted.acked}
    dead = {"max receives": counted.dead} if counted.dead else {}
    totals = Totals(counted.since, counts, dead, counted.at)
    return Reading("rsmq", name, attributes.msgs, states, oldest_ready=age, totals=totals)


def _look_up(name: str) -> Operation[list[readings.Found]]:
    return [readings.Found("rsmq", name)] * (yield from has_type(f"{name}:Q", b"hash"))


def _dead(name: str) -> bytes:
    from ackq.rsmq.values import RSMQSpec

    namespace, queue = _split(name)
    return RSMQSpec(namespace, outside=SYSTEM).keys(queue).dead


def _letter(entry: Sequence[Any]) -> DeadLetter:
    from ackq.rsmq.values import letter_of

    return letter_of(entry)


RSMQ_QUEUE = Kind(
    name="rsmq",
    label="RSMQ",
    called="an RSMQ queue",
    part="",
    does=frozenset({"stats", "dead", "find"}),
    looks_up_ids=True,
    refusals={
        "search": "in an RSMQ queue, messages are found by their id only: use ackq find",
        "work": "take its messages with RSMQ.receive_message(NAME)",
    },
    open=_open,
    stats=_Queue.stats,
    read=_read,
    look_up=_look_up,
    check=unchecked,
    dead=_dead,
    letter=_letter,
)
