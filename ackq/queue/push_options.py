"""What a producer asks for besides the message, and what it means for the requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from ackq.config import Confirm, Seconds, microseconds
from ackq.core.call import call
from ackq.core.confirm import check_confirmed, require_confirmable
from ackq.core.effects import Operation, Request
from ackq.core.limits import MAX_DELAY
from ackq.errors import ConfigurationError, NotConfirmed
from ackq.queue.spec import QueueSpec
from ackq.setting_types import check_types


@dataclass(frozen=True, slots=True)
class PushOptions:
    """The options of a push, as the producer gave them; see `ackq.Queue.push`."""

    delay: Seconds | None = None
    at: float | datetime | None = None
    front: bool = False
    #: The key of one message. For many messages, see `ackq.queue.dedup.keys_of`.
    dedup: Any = None
    dedup_window: Seconds = 3600.0
    #: "done" or "taken".
    unique: Any = None
    unique_by: Sequence[str] | None = None
    unique_for: Seconds = 86400.0
    replace: bool = False
    #: Refused where it is written into the message.
    group: Any = None
    confirm: Confirm | None = None

    def __post_init__(self) -> None:
        """Check the types of what is given.

        Raises:
            ConfigurationError: an option is of another type.
        """
        given = {
            name: value
            for name, usual in _USUAL.items()
            if (value := getattr(self, name)) is not usual
        }
        check_types(PushOptions, given)


_USUAL = {each.name: each.default for each in fields(PushOptions)}
#: The options of a plain push.
PLAIN = PushOptions()


@dataclass(frozen=True, slots=True)
class Terms:
    """When messages become ready, as the scripts take it, and what confirms that they are stored.

    Attributes:
        when: "now", "front", "delay" or "at".
        due: microseconds: for "delay" from now, for "at" from the epoch, else 0.
        confirm: what to wait for.
    """

    when: str
    due: int
    confirm: Confirm | None

    @classmethod
    def of(cls, options: PushOptions) -> Terms:
        """Return the terms that the options mean.

        Raises:
            ConfigurationError: they contradict each other, or a time is out of range.
        """
        delay, at, confirm = options.delay, options.at, options.confirm
        if delay is None and at is None:
            return cls("front" if options.front else "now", 0, confirm)
        if delay is not None and at is not None:
            raise ConfigurationError("give delay or at, not both")
        if options.front:
            raise ConfigurationError(
                "front is for messages that are ready now. A delayed message is delivered before"
                " the ready ones anyway, once it is due: leave out front"
            )
        if delay is not None:
            return cls("delay", microseconds(delay, "delay", MAX_DELAY, zero=True), confirm)
        if isinstance(at, datetime):
            if at.tzinfo is None:
                raise ConfigurationError(
                    f"at={at!r} has no time zone: Redis and you may differ; add one"
                )
            at = at.timestamp()
        if not isinstance(at, int | float) or isinstance(at, bool):
            raise ConfigurationError(f"at is seconds since the epoch or a datetime, not {at!r}")
        return cls("at", microseconds(max(at, 1e-6), "at", MAX_DELAY), confirm)

    @property
    def is_later(self) -> bool:
        """Whether the messages are delayed."""
        return self.when in ("delay", "at")

    def send(self, spec: QueueSpec, request: Request) -> Operation[tuple[Any, NotConfirmed | None]]:
        """Send a request that stores messages.

        Returns:
            Its reply, and the error to raise if too few servers confirmed it in time.
        """
        if self.confirm is None:
            return (yield from call(spec, request)), None
        yield from require_confirmable(self.confirm)
        reply, confirmation = yield from call(spec, request)
        try:
            check_confirmed(self.confirm, confirmation)
        except NotConfirmed as error:
            return reply, error
        return reply, None
