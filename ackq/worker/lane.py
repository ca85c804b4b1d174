"""One queue of a worker, with what the worker knows of it: for taking, and for the upkeep."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from ackq.config import RateLimit
from ackq.core.outside import JITTER
from ackq.queue.messages import Message
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.worker.batch import Collector
from ackq.worker.effects import Bell
from ackq.worker.outages import Outages
from ackq.worker.policy import Settlement

#: Seconds of jitter that a lease may carry beyond the visibility timeout.
JITTER_SECONDS = JITTER / 1_000_000
#: Seconds to wait after a failed call; doubled up to `MAX_PAUSE`.
FIRST_PAUSE = 0.1
MAX_PAUSE = 2.0


def is_sharded(queue: Any) -> bool:
    """Return whether this is a sharded queue."""
    return isinstance(queue, ShardedQueue | AsyncShardedQueue)


@dataclass(slots=True, eq=False)
class Take:
    """Where the taking of messages stands. All times are those of the worker's clock."""

    bell: Bell  #: wakes the routine that waits for a message while the queue is empty
    empty: bool = False  #: whether the last take returned no messages
    empty_since_settled: bool = False  #: whether everything was settled before that take
    under_way: bool = False  #: whether messages may arrive that are not in the buffer yet
    asked_at: float | None = None  #: when the current call began
    not_before: float = 0.0  #: when to take again
    unused: int = 0  #: permits of the rate limit that were not used


@dataclass(slots=True, eq=False)
class Upkeep:
    """What is to be settled, and when. All times are those of the worker's clock."""

    done: deque[Message] = field(default_factory=deque)  #: to be acked
    returned: deque[tuple[Message, Settlement]] = field(default_factory=deque)
    apart: bool = False  #: whether acks do not travel with the next take
    not_before: float = 0.0  #: when to settle and renew again
    watch_at: float = 0.0  #: when to ask for the totals again

    def owes(self) -> bool:
        """Return whether a message has to be settled."""
        return bool(self.done or self.returned)

    def collect(self) -> list[Message]:
        """Remove and return up to 1,000 messages to ack. Safe from several threads at once."""
        collected: list[Message] = []
        take, keep = self.done.popleft, collected.append
        try:
            while len(collected) < 1000:
                keep(take())
        except IndexError:
            pass
        return collected


class Lane:
    """A queue of the worker, sharded or not, with the worker's state for it."""

    def __init__(
        self,
        number: int,
        queue: Any,
        limit: RateLimit | None,
        bell: Bell,
        max_receives: int | None = None,
    ) -> None:
        self.number = number
        self.queue = queue
        self.sharded = is_sharded(queue)
        self.limit = limit
        self.timeout: float = queue.config.visibility_timeout
        #: After how many deliveries a message is dead. The worker decides that: its queue has the
        #: highest limit there is, so that no pop of it buries a message that other crashes killed.
        self.max_receives = max_receives
        self.take = Take(bell)
        self.upkeep = Upkeep()
        #: Collects its messages if its handler gets batches.
        self.collector: Collector | None = None
        self.outages = Outages(queue.name, queue.address)
        self.failures = 0  #: calls that failed in a row
        #: The clock of each shard's server, or the queue's, minus the worker's; never ahead.
        self.clocks: dict[str, float] = {}

    def remaining(self, message: Message, now: float) -> float:
        """Return how many seconds the lease still lasts, or up to 66 ms more."""
        return message.lease_expires_at - self.clocks.get(message.queue, 0.0) - now

    def in_order(self, message: Message) -> bool:
        """Return whether messages of a group are handled one by one in the queue of this one."""
        groups = self.queue_of(message).config.groups
        return groups is not None and groups.in_flight == 1

    def queue_of(self, message: Message) -> Any:
        """Return the queue of a message: of a sharded queue, that of its shard."""
        return self.queue.queue_of(message.queue) if self.sharded else self.queue

    def message_of(self, queue: str, key: bytes, receipt: int, count: int) -> Message:
        """Return a message that another process took. Its body is not known yet."""
        config = self.queue.config
        field = config.groups.field if config.groups is not None else None
        taken_at = receipt / 1_000_000 - self.timeout
        return Message(queue, key, b"", receipt, count, (taken_at, config.time_field, field))

    def age(self, message: Message, now: float) -> float:
        """Return how many seconds ago the message was taken, to within 66 ms."""
        at = now + self.clocks.get(message.queue, 0.0)
        return at - (message.receipt / 1_000_000 - self.timeout)

    def failed(self, error: BaseException, now: float, doing: str) -> None:
        """Record that a call failed: try again a little later."""
        pause = min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(self.failures, 10))
        self.failures += 1
        self.take.not_before = now + pause
        # No lease may end while its renewal pauses.
        self.upkeep.not_before = now + min(pause, self.timeout / 6)
        self.outages.failed(doing, error, now)

    def succeeded(self, now: float, doing: str) -> None:
        """Record that the server answers."""
        if self.outages.current:
            self.outages.succeeded(doing, now)
        if self.failures:
            self.failures = 0
            self.take.not_before = self.upkeep.not_before = 0.0
