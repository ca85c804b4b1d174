"""What a handler is given, and the place in which it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from ackq.core.failure import as_text
from ackq.core.fencing import Verb
from ackq.errors import ConfigurationError
from ackq.queue.messages import Message, share_delivery
from ackq.worker.policy import USUAL, Terms


def terms_of(message: Message) -> Terms:
    """Return the terms that a handler gave a message, or the usual ones."""
    terms = message.terms
    return terms if type(terms) is Terms else USUAL


class Lent(Message):
    """A message as its handler gets it, which may do with it whatever it likes.

    It is equal to the worker's own message, and shares with it what each may tell the other: the
    lease, the terms, and whether it is settled. All else is a copy, which the worker never reads.
    """

    __slots__ = ("_own",)

    def __init__(self, own: Message) -> None:
        self._own = own
        self.queue = own.queue
        self.key = own.key
        self.body = own.body
        self.receipt = own.receipt
        self.receive_count = own.receive_count
        share_delivery(own, self)

    def __eq__(self, other: object) -> bool:
        return self._own is (other._own if type(other) is Lent else other)

    def __hash__(self) -> int:
        return hash(self._own)

    def __reduce__(self) -> Any:
        """Copy or pickle the message itself."""
        return copy, (self._own,)


def _shared(name: str, kinds: tuple[type, ...]) -> property:
    """Return an attribute that handler and worker share. It takes only what the worker can use."""

    def assign(lent: Any, value: Any) -> None:
        if type(value) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds).replace("NoneType", "None")
            raise ConfigurationError(f"message.{name} is a {expected}, not {as_text(value, repr)}")
        setattr(lent._own, name, value)

    read: Callable[[Any], Any] = attrgetter(f"_own.{name}")
    return property(read, assign)


for _name, _kinds in {
    "lease_expires_at": (float,),
    "lease_lost": (bool,),
    "timed_out": (bool,),
    "canceled": (bool,),
    "dead": (bool,),
    "terms": (Terms, type(None)),
    "settles_sent": (int,),
    "settled_by": (Verb, type(None)),
    "failure": (bytes,),
    "trace_id": (str,),
}.items():
    setattr(Lent, _name, _shared(_name, _kinds))


@dataclass(slots=True, eq=False)
class Slot:
    """A place in which one handler runs at a time. ``runner`` is its thread or task."""

    #: The message, or the first of a batch.
    message: Message | None = None
    #: The messages of a batch.
    batch: list[Message] = field(default_factory=list)
    #: Whether its thread may have taken a message that is not in ``message`` yet.
    taking: bool = False
    started: float = 0.0
    interrupted: str = ""  #: why the running handler was interrupted
    runner: Any = None
    #: In a thread whose handler is asynchronous: its message, and the task that runs it.
    task: tuple[Message, Any] | None = None

    def held(self) -> Sequence[Message]:
        """Return the messages of this slot."""
        message = self.message
        return self.batch.copy() or (() if message is None else (message,))
