"""Handlers that get several messages at once, and what collects the messages for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ackq.config import Seconds, check_integer, check_seconds, in_seconds
from ackq.core.failure import as_text
from ackq.errors import ConfigurationError
from ackq.queue.messages import Message
from ackq.setting_types import check_fields
from ackq.worker.effects import Bell
from ackq.worker.verdicts import Verdict, leaves_of

#: Most messages of one batch, and the longest wait for them in seconds.
MAX_SIZE = 10_000
MAX_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Batch:
    """How many messages a handler gets at once.

    A batch is handled when it is full or when its first message has waited for ``wait`` seconds.
    The leases of its messages are renewed meanwhile.
    """

    #: The most messages of one batch, 1 to 10000. Defaults to 100.
    size: int = 100
    #: Seconds to wait for more messages, 0 to 60. Defaults to 0.1.
    wait: Seconds = 0.1

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            ConfigurationError: names the setting and its value.
        """
        check_fields(self, "batch.")
        check_integer(self.size, "batch.size", 1, MAX_SIZE)
        if check_seconds(self.wait, "batch.wait", zero=True) > MAX_WAIT:
            raise ConfigurationError(f"batch.wait is 0 to {MAX_WAIT:g} seconds, not {self.wait!r}")


class Failed(Verdict):
    """Some messages of a batch have failed. The others are done.

    Args:
        errors: what each failed message failed with: an exception, or `Again`, `Reject` or
            `Release` to choose how it is settled. Empty: none has failed.

    Raises:
        ConfigurationError: a key is no message, or a value no exception.
    """

    def __init__(self, errors: Mapping[Message, BaseException]) -> None:
        for message, error in dict(errors).items():
            if not isinstance(message, Message):
                raise ConfigurationError(
                    "Failed takes the messages themselves, as in Failed({message: error}), not"
                    f" {as_text(message, repr)}"
                )
            if not issubclass(type(error), BaseException) or issubclass(type(error), Failed):
                raise ConfigurationError(
                    "Failed takes an exception for each message, as in Failed({message:"
                    f" ValueError('why')}}), not {as_text(error, repr)}"
                )
        super().__init__(errors)
        self.errors = dict(errors)


def failures_of(
    batch: Collection[Message], error: BaseException
) -> Mapping[Message, BaseException]:
    """Return what each failed message of a batch failed with, after its handler raised ``error``.

    A group of errors counts as the first verdict in it. One of nothing but `Failed` decides about
    the messages that they name. The others have failed, too, since a `TaskGroup` cancels the tasks
    that still work on them, and does not say so.
    """
    leaves = list(leaves_of(error))
    if all(issubclass(type(each), Failed) for each in leaves):
        named = {message: why for each in leaves for message, why in _named(each).items()}
        strangers = [message for message in named if message not in {*batch}]
        if strangers:
            error = ConfigurationError(
                f"Failed names {strangers[0].id!r}, which is not in this batch, so the whole batch"
                " has failed: pass the messages that the handler got"
            )
        elif error is leaves[0]:
            return named
        return {message: named.get(message, error) for message in batch}
    verdicts = (each for each in leaves if issubclass(type(each), Verdict))
    others = (each for each in verdicts if not issubclass(type(each), Failed))
    return dict.fromkeys(batch, next(others, error))


def _named(failed: Any) -> Mapping[Message, BaseException]:
    return Failed(failed.errors).errors  # which may have been changed, or set by a subclass


@dataclass(slots=True, eq=False)
class Pile:
    """A batch that waits for a handler."""

    queue: str  #: the name of its queue; of a sharded queue, not that of a shard
    messages: list[Message]


class Collector:
    """Collects the messages of one queue. Any thread may call any method.

    A message is always in the open batch or in one that was passed on, so code that looks for
    messages looks in this order.
    """

    def __init__(
        self, queue: str, batch: Batch, bell: Bell, pass_on: Callable[[Pile], None]
    ) -> None:
        """Begin with an empty batch.

        Args:
            queue: its name.
            batch: when a batch is complete.
            bell: of the routine that waits until a batch is due.
            pass_on: called with each complete batch.
        """
        self.size = batch.size
        self.bell = bell
        self._queue = queue
        self._wait = in_seconds(batch.wait)
        self._pass_on = pass_on
        self._open: list[Message] = []
        self._due = 0.0
        self._lock = threading.Lock()

    def add(
        self, messages: Iterable[Message], is_last: Callable[[Message], bool], now: float
    ) -> None:
        """Add messages. Those at their last permitted delivery get a batch each.

        Such a message may kill its worker, and then it takes no others along.
        """
        with self._lock:
            for message in messages:
                if is_last(message):
                    self._pass_on(Pile(self._queue, [message]))
                    continue
                if not self._open:
                    self._due = now + self._wait
                self._open.append(message)
                if len(self._open) >= self.size:
                    self._close()
        self.bell.ring()

    def left(self, now: float) -> float | None:
        """Return for how many seconds the open batch still waits, or None if it is empty."""
        with self._lock:
            return max(0.0, self._due - now) if self._open else None

    def close(self, now: float) -> None:
        """Pass the open batch on if it is due."""
        with self._lock:
            if self._open and now >= self._due:
                self._close()

    def waiting(self) -> list[Message]:
        """Return the messages of the open batch."""
        with self._lock:
            return self._open.copy()

    def _close(self) -> None:
        messages, self._open = self._open, []
        self._pass_on(Pile(self._queue, messages))
