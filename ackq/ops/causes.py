"""Why the messages of a queue died: its dead letters counted by cause, in bounded steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

import redis

from ackq.core.inspected import DeadLetter
from ackq.core.page_size import next_size
from ackq.delay.client import DelayQueue
from ackq.ops.readings import Reading
from ackq.queue.client import Queue
from ackq.rsmq.client import RSMQ
from ackq.rsmq.values import RSMQDeadLetter

#: Most dead letters, and bytes of their bodies, that are read.
MOST_READ, MOST_BYTES = 1000, 8 * 1024 * 1024
#: Most dead letters that one call reads.
STEP = 100


class Letter(Protocol):
    """A dead letter of any kind of queue."""

    @property
    def entry(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def cause(self) -> str: ...


L = TypeVar("L", bound=Letter)

#: Reads a number of dead letters of a queue, oldest first, after an entry.
Read = Callable[[int, str | None], Sequence[L]]


@dataclass(frozen=True, slots=True)
class Causes:
    """The oldest dead letters of a queue by cause."""

    #: The most frequent first.
    counts: tuple[tuple[str, int], ...]
    #: How many dead letters were read.
    read: int


def causes_of(client: redis.Redis, reading: Reading) -> Causes:
    """Count the oldest dead letters of a queue by cause. At most `MOST_READ` are read.

    Topics have none.
    """
    counts: Counter[str] = Counter()
    for each in reading.parts or (reading,):
        left = MOST_READ - counts.total()
        if not each.states.get("dead") or not left:
            continue
        if each.kind == "list":
            with Queue(client, each.name) as queue:
                read = partial(_read, queue)
                counts.update(letter.cause for letter in oldest(read, None, left))
        elif each.kind == "delay":
            with DelayQueue(client, each.name) as delayed:
                read = partial(_read, delayed)
                counts.update(letter.cause for letter in oldest(read, None, left))
        elif each.kind == "rsmq":
            namespace, _, qname = each.name.rpartition(":")
            with RSMQ(client, namespace) as rsmq:
                of_rsmq = partial(_read_rsmq, rsmq, qname)
                counts.update(letter.cause for letter in oldest(of_rsmq, None, left))
    return Causes(tuple(counts.most_common()), counts.total())


def _read(queue: Queue | DelayQueue, n: int, after: str | None) -> Sequence[DeadLetter]:
    return queue.dead_letters(n, after=after)


def _read_rsmq(rsmq: RSMQ, qname: str, n: int, after: str | None) -> list[RSMQDeadLetter]:
    return rsmq.dead_letters(qname, n, after=after)


def oldest(read: Read[L], after: str | None, most: int) -> Iterator[L]:
    """Yield up to ``most`` dead letters that follow the entry ``after``; None: from the first.

    At most 8 MiB of bodies are read, and one more call's.
    """
    weight = 0
    for letter in islice(every(read, after), most):
        yield letter
        weight += len(letter.body)
        if weight >= MOST_BYTES:
            return


def every(read: Read[L], after: str | None) -> Iterator[L]:
    """Yield the dead letters that follow an entry, oldest first.

    One call reads at most `STEP`, or fewer if they are long.
    """
    size = 1
    while found := read(size, after):
        yield from found
        if len(found) < size:
            return
        after = found[-1].entry
        size = next_size((each.body for each in found), STEP)
