"""What a worker takes, how much and from which queue, and where messages wait for a handler."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from ackq.queue.messages import Message
from ackq.worker.batch import Pile
from ackq.worker.effects import Bell


def _key(message: Message) -> tuple[str, str | None]:
    return message.queue, message.group


class Runs:
    """The messages that wait for the message before them, which is buffered or being handled.

    Until all messages of a run are settled, the scripts deliver no others of its group. So no
    group has two runs here, unless the leases of one have ended.
    """

    __slots__ = ("_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str | None], deque[Message]] = {}

    def begin(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages to handle now: the first of each group. Keep the others."""
        heads: dict[tuple[str, str | None], Message] = {}
        now = []
        with self._lock:
            for message in messages:
                key = _key(message)
                if message.group is None or heads.setdefault(key, message) is message:
                    # The leases of an earlier run of this group have ended.
                    self._waiting.pop(key, None)
                    now.append(message)
                else:
                    self._waiting.setdefault(key, deque()).append(message)
        return now

    def next(self, message: Message) -> Message | None:
        """Return the message to handle after this one, if any. It waits no longer."""
        with self._lock:
            waiting = self._waiting.get(_key(message))
            # One take has one receipt. A later run does not go on behind an earlier one.
            if not waiting or waiting[0].receipt != message.receipt:
                return None
            following = waiting.popleft()
            if not waiting:
                del self._waiting[_key(message)]
            return following

    def end(self, message: Message) -> Iterable[Message]:
        """Return the messages of a run that come after this one. They wait no longer."""
        with self._lock:
            return self._waiting.pop(_key(message), ())

    def __len__(self) -> int:
        return len(self.copy()) if self._waiting else 0

    def copy(self) -> list[Message]:
        """Return the waiting messages."""
        with self._lock:
            return [message for waiting in self._waiting.values() for message in waiting]


#: What waits for a handler.
Item = Message | Pile

#: Seconds of work that a worker holds beyond running handlers: long enough to hide a round trip,
#: short enough not to delay a pause, a stop or an idle worker elsewhere.
BUFFERED_SECONDS = 0.1
#: Weight of the latest duration in the moving average.
AVERAGE_WEIGHT = 0.1


class Pace:
    """Decide how many messages to hold beyond running handlers, by how long handlers take.

    With a slow handler, the worker holds no messages in advance; with a quick one, ``prefetch``.
    """

    __slots__ = ("_concurrency", "_prefetch", "seconds")

    def __init__(self, concurrency: int, prefetch: int) -> None:
        self._concurrency = concurrency
        self._prefetch = prefetch
        #: Moving average of the durations; None before the first.
        self.seconds: float | None = None

    def finished(self, seconds: float) -> None:
        """Record how long a handler took."""
        mean = self.seconds
        self.seconds = seconds if mean is None else mean + (seconds - mean) * AVERAGE_WEIGHT

    def slowed(self, seconds: float) -> None:
        """Record that messages waited this long in the worker, which had taken too many."""
        self.seconds = max(seconds, self.seconds or 0.0)

    @property
    def spare(self) -> int:
        """How many messages may wait beyond those being handled."""
        if self.seconds is None:
            return 0
        if self.seconds * self._prefetch <= self._concurrency * BUFFERED_SECONDS:
            return self._prefetch
        return int(self._concurrency * BUFFERED_SECONDS / self.seconds)


class QueueOrder:
    """Choose the queue to take from next: in strict order, or by weight (stride scheduling)."""

    def __init__(self, weights: Iterable[float] | None, lanes: int) -> None:
        self._weights = list(weights) if weights is not None else None
        self._progress = [0.0] * lanes

    @property
    def strict(self) -> bool:
        """Whether the first lane that has messages always goes first."""
        return self._weights is None

    def order(self) -> Iterator[int]:
        """Yield the lanes in the order in which to try them now."""
        if self._weights is None:
            return iter(range(len(self._progress)))
        return iter(sorted(range(len(self._progress)), key=self._progress.__getitem__))

    def took(self, lane: int, messages: int) -> None:
        """Record how many messages were taken from a lane."""
        if self._weights is not None:
            self._progress[lane] += messages / self._weights[lane]

    def returned(self, lane: int, active: Iterable[int]) -> None:
        """Record that a lane has messages again. It gets no credit for the turns it missed."""
        least = min((self._progress[number] for number in active), default=self._progress[lane])
        self._progress[lane] = max(self._progress[lane], least)


class StrictBuffer:
    """Messages that wait in the worker, those of the first queue before those of the next.

    Like those of a deque, each operation is safe to call from several threads at once.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._by_name: dict[str, deque[Item]] = {name: deque() for name in names}
        self._all = tuple(self._by_name.values())

    def add_shard(self, name: str, queue: str) -> None:
        """Let messages of shard ``name`` wait with those of the queue."""
        self._by_name[name] = self._by_name[queue]

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages behind those of the same queue."""
        for message in messages:
            self.append(message)

    def append(self, item: Item) -> None:
        """Add a message or a batch behind those of the same queue."""
        self._by_name[item.queue].append(item)

    def appendleft(self, item: Item) -> None:
        """Add a message or a batch before those of the same queue."""
        self._by_name[item.queue].appendleft(item)

    def popleft(self) -> Item:
        """Remove and return the next message.

        Raises:
            IndexError: the buffer is empty.
        """
        for waiting in self._all:
            try:
                return waiting.popleft()
            except IndexError:
                continue
        raise IndexError

    def __len__(self) -> int:
        return sum(map(len, self._all))

    def __iter__(self) -> Iterator[Item]:
        for waiting in self._all:
            yield from waiting.copy()

    def remove(self, item: Item) -> None:
        """Remove this message or batch.

        Raises:
            ValueError: it is not in the buffer.
        """
        self._by_name[item.queue].remove(item)

    def copy(self) -> list[Item]:
        """Return the waiting messages and batches."""
        return list(self)


class Feed:
    """The messages that wait for a handler, and the feeder that takes more when there is room.

    Handlers and the feeder share it. Each single operation on it is thread-safe.
    """

    __slots__ = ("bell", "buffer", "last_take", "pace", "refill_at", "runs", "turns", "waits")

    def __init__(self, names: Iterable[str], turns: QueueOrder, pace: Pace, bell: Bell) -> None:
        """Begin with an empty buffer.

        Args:
            names: of the queues, the first of highest priority.
            turns: which queue is next.
            pace: how many messages may wait.
            bell: the feeder waits for it.
        """
        names = list(names)
        self.turns = turns
        self.pace = pace
        self.bell = bell
        strict = len(names) > 1 and turns.strict
        self.buffer: Any = StrictBuffer(names) if strict else deque()
        #: Messages that wait for others of their group.
        self.runs = Runs()
        self.waits = False  #: whether to ring its bell when there is room
        self.refill_at = 0  #: how many may wait when the feeder takes more
        self.last_take = 0.0  #: when messages last arrived, by the worker's clock

    def made_room(self) -> None:
        """Ring the waiting feeder if there is room, after a message left the buffer or a slot."""
        if len(self.buffer) <= self.refill_at:
            self.waits = False
            self.bell.ring()

    def add_shard(self, name: str, queue: str) -> None:
        """Let messages of shard ``name`` wait with those of the queue."""
        if isinstance(self.buffer, StrictBuffer):
            self.buffer.add_shard(name, queue)
