"""The results of inspecting any queue."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ackq.core.failure import Failure
from ackq.core.task_name import task_of
from ackq.errors import ConfigurationError

_ENTRY = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
#: The reason of a delayed message that was canceled.
CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class PeekedMessage:
    """A message as `peek` saw it, without a lease.

    ``at`` is when its lease ends (in flight) or it becomes due (delayed), in seconds since the
    epoch by the server's clock. None on the ready list, which has no times.
    """

    id: str
    body: bytes
    receive_count: int
    at: float | None
    #: Why its last deliveries failed, oldest first; see `Failure`.
    errors: tuple[Failure, ...] = ()
    #: When it was created, in seconds since the epoch by its producer's clock, as far as its body
    #: tells; see `Message.created_at`.
    created_at: float | None = None
    #: What `run_now` and `cancel` of a list queue take: this message, as long as it is due at this
    #: time. Empty in other states and for other queues.
    entry: str = ""
    #: Whether it was canceled deep in the ready list, so that it becomes a dead letter and is not
    #: delivered. False for other queues.
    canceled: bool = False

    @property
    def task(self) -> str | None:
        """The task that the body names; see `Message.task`."""
        return task_of(self.body)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that will not be delivered again unless it is redriven.

    ``entry`` is its id in the dead-letter stream; ``reason`` is "max receives", "too large",
    "body missing", "canceled" or the reason passed to `reject`; ``died_at`` is in seconds since
    the epoch; ``unique`` says whether a unique push stored it.
    """

    entry: str
    id: str
    body: bytes
    reason: str
    receive_count: int
    died_at: float
    #: Why its last deliveries failed, oldest first; see `Failure`. Empty if nothing is recorded.
    errors: tuple[Failure, ...] = ()
    unique: bool = False

    @property
    def cause(self) -> str:
        """What to group dead letters by: the last error's type and place, else the reason.

        Errors of earlier deliveries are no cause of a message that was rejected or canceled.
        """
        last = self.errors[-1] if self.errors and self.reason != CANCELED else None
        died_of_it = last is not None and last.attempt >= self.receive_count
        return last.cause if last is not None and died_of_it else self.reason

    @property
    def task(self) -> str | None:
        """The task that the body names; see `Message.task`."""
        return task_of(self.body)


State = Literal["ready", "in_flight", "delayed"]
#: Where `find` looks for a message, in the order in which it prefers what it finds.
Place = Literal["in_flight", "ready", "delayed", "dead"]


@dataclass(frozen=True, slots=True)
class Found:
    """A message that `find` or `search` found, and where it was at that time."""

    id: str
    #: "ready", "in_flight", "delayed" or "dead".
    state: Place
    body: bytes
    receive_count: int
    #: The queue, or the shard of a sharded queue.
    queue: str = ""
    #: Ready: how many messages are delivered before it, unless others become ready first. None if
    #: it is not ready, or was moved aside in a queue with groups.
    position: int | None = None
    #: In flight: seconds until its lease ends.
    lease_ends_in: float | None = None
    #: Delayed: seconds until it is due.
    due_in: float | None = None
    #: In flight: the worker that handles it, as in `ackq workers`. None if that is unknown.
    worker: str | None = None
    #: Why its last deliveries failed, oldest first; see `Failure`.
    errors: tuple[Failure, ...] = ()
    #: Delayed: `PeekedMessage.entry`; dead: `DeadLetter.entry`. Else empty.
    entry: str = ""
    #: Dead: `DeadLetter.reason`. Else empty.
    reason: str = ""
    #: Ready: whether it was canceled deep in the list, so that it becomes a dead letter, and is not
    #: delivered, when its turn comes.
    canceled: bool = False


def check_entry(text: str) -> None:
    """Raise an error for a text that cannot be the `DeadLetter.entry` of a dead letter.

    Raises:
        ConfigurationError: it is not the id of an entry in a stream.
    """
    if (
        not isinstance(text, str)
        or not _ENTRY.fullmatch(text)
        or any(int(each) >= 2**64 for each in text.split("-"))
    ):
        raise ConfigurationError(f"{text!r} is not the entry of a dead letter, such as '17-0'")
