"""The settings of a queue, checked when they are created."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal, Self

from ackq.errors import ConfigurationError
from ackq.setting_types import check_fields

#: Longest visibility timeout in seconds, as in SQS.
MAX_VISIBILITY_TIMEOUT = 12 * 3600.0

#: Most deliveries that ``max_receives`` may permit.
MAX_MAX_RECEIVES = 1_000_000

#: A duration, as every class takes it: seconds, or a timedelta.
Seconds = float | timedelta

#: The end of its list from which a queue is popped.
PopFrom = Literal["right", "left"]

#: What a dead letter does to its group.
OnDead = Literal["continue", "stop"]

#: What a queue stores about the error of a failed delivery; each includes the one before.
RecordErrors = Literal["none", "type", "text", "traceback"]

_MEMBER = re.compile(r"(?!id$)[\w.:@$-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Limit what is taken to ``count`` messages in ``per`` seconds.

    A worker has one for a queue, which all workers of the queue share; `Groups` has one for each
    group. In any span of t seconds, at most ``burst + t * count / per`` messages are taken.
    Redelivered messages count.
    """

    #: Messages, 1 to 1e9.
    count: int
    #: Seconds, up to a day. Defaults to 1 second.
    per: Seconds = 1.0
    #: Messages that may be taken at once after an idle period, 1 to 1e9. Defaults to a tenth of a
    #: second's worth, at least 1: RateLimit(10, per=60) permits one message every 6 seconds.
    burst: int | None = None

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            ConfigurationError: a setting is out of range; the text names it and its value.
        """
        check_fields(self, "rate_limit.")
        check_integer(self.count, "rate_limit.count", 1, 1_000_000_000)
        microseconds(self.per, "rate_limit.per", 86_400)
        if self.burst is not None:
            check_integer(self.burst, "rate_limit.burst", 1, 1_000_000_000)

    @property
    def period(self) -> int:
        """``per`` in microseconds."""
        return microseconds(self.per, "rate_limit.per", 86_400)

    @property
    def at_once(self) -> int:
        """``burst``, or its default."""
        return self.burst or max(1, int(self.count / in_seconds(self.per) / 10))


@dataclass(frozen=True, slots=True)
class Groups:
    """What a group of messages is, and how many of a group are handled at a time.

    Messages of a group are delivered in the order of their pushes. A message takes one of its
    group's places from its first delivery until it is acked or a dead letter.
    """

    #: The member of a message's JSON object that names its group: a text, or an integer. It is no
    #: path, so it has no dots. Messages without it have no group, and are not limited.
    field: str
    #: Messages of a group that are handled at a time, 1 to 1000. With 1, a `pop_many` may
    #: return several of one group, in order, to be handled one by one. Defaults to 1.
    in_flight: int = 1
    #: How fast the messages of each group are taken. A redelivered message waits like any other.
    #: Defaults to None: no limit.
    rate: RateLimit | None = None
    #: What a dead letter does to its group: "continue": the next message follows; "stop": the group
    #: waits until the dead letter is redriven, which puts it back into its place, or dropped; see
    #: `Queue.resume_group`. Defaults to "continue".
    on_dead: OnDead = "continue"

    def __post_init__(self) -> None:
        """Check every setting.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        check_fields(self, "groups.")
        _check_member(self.field, "groups.field")
        if "." in self.field:
            raise ConfigurationError(
                f"groups.field is a member of the object itself, not a path: {self.field!r}. Write"
                " the group into a member of its own, as push(..., group=...) does"
            )
        check_integer(self.in_flight, "groups.in_flight", 1, 1000)


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """How a consumer takes messages. A producer only needs ``max_body_bytes``."""

    #: Seconds that a lease lasts, 1e-6 to 43200. Defaults to 30 seconds.
    visibility_timeout: float = 30.0
    #: Deliveries after which a message goes to the dead letters; None: no limit. Defaults to None.
    max_receives: int | None = None
    #: Where a message goes when its lease ends: "front", ahead of the ready list, or "back", onto
    #: the left end of the list, as in the article "Explain how redis implements ack for queue
    #: messages" (2019). With "back", receive counts are best effort. Defaults to "front".
    requeue: Literal["front", "back"] = "front"
    #: Longest body in bytes, 1 to 536870912. Defaults to 1 MiB.
    max_body_bytes: int = 1024 * 1024
    #: The end of the list that consumers pop: "right" if producers use LPUSH, "left" if they use
    #: RPUSH. The same for all clients of the queue. Defaults to "right".
    pop_from: PopFrom = "right"
    #: What to store about the error of a failed delivery: "none", "type" (with the line of code and
    #: the time), "text" (also the error's text) or "traceback". Defaults to "text".
    record_errors: RecordErrors = "text"
    #: The member of a message's JSON object that holds the time at which it was created. Defaults
    #: to None: only the ``time`` of CloudEvents is used.
    time_field: str | None = None
    #: The groups of the messages. The same for all clients of the queue. Defaults to None: messages
    #: have no groups.
    groups: Groups | None = None
    #: Messages of the queue that are leased at a time, by all consumers together, 1 to 1000000. The
    #: same for all clients of the queue. Defaults to None: no limit.
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        """Check that every setting is in its range.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        check_fields(self, "")
        microseconds(self.visibility_timeout, "visibility_timeout")
        if self.max_receives is not None:
            check_integer(self.max_receives, "max_receives", 1, MAX_MAX_RECEIVES)
        check_integer(self.max_body_bytes, "max_body_bytes", 1, 512 * 1024 * 1024)
        if self.time_field is not None:
            _check_member(self.time_field, "time_field")
        self._check_groups()

    @property
    def grouped(self) -> bool:
        """Whether the queue has groups or a limit, which are recorded at its first use."""
        return self.groups is not None or self.max_in_flight is not None

    def _check_groups(self) -> None:
        if self.max_in_flight is not None:
            check_integer(self.max_in_flight, "max_in_flight", 1, 1_000_000)
        if self.grouped and (self.requeue != "front" or self.pop_from != "right"):
            raise ConfigurationError(
                "a queue with groups or max_in_flight is popped from the right, and redelivers to"
                " the front: leave out requeue and pop_from"
            )

    def settings(self) -> dict[str, Any]:
        """Return the settings by name, as a queue takes them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return these settings with others for some; a duration may be a timedelta.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        converted: dict[str, Any] = {name: in_seconds(each) for name, each in changes.items()}
        return replace(self, **converted)


@dataclass(frozen=True, slots=True)
class Confirm:
    """How many servers must have a write before a push or an ack returns.

    If fewer servers have it in time, the call raises `NotConfirmed`.
    """

    #: Replicas that must have received the write. Defaults to 0.
    replicas: int = 0
    #: Whether the write must be on disk, on the primary and on those replicas. This uses WAITAOF,
    #: which needs Redis 7.2 and an append-only file. Defaults to False.
    fsync: bool = False
    #: Seconds to wait for confirmation. Defaults to 1 second.
    timeout: Seconds = 1.0

    def __post_init__(self) -> None:
        """Check that every setting is in its range.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        check_fields(self, "confirm.")
        check_integer(self.replicas, "confirm.replicas", 0, 1000)
        if not self.replicas and not self.fsync:
            raise ConfigurationError("confirm asks for nothing: set replicas, fsync or both")
        if not (isinstance(self.seconds, int | float) and 0.001 <= self.seconds <= 3600):
            raise ConfigurationError(
                f"confirm.timeout is 0.001 to 3600 seconds, not {self.timeout!r}"
            )

    @property
    def seconds(self) -> float:
        """The timeout in seconds."""
        return in_seconds(self.timeout)

    @classmethod
    def of(cls, confirm: int | Confirm) -> Confirm:
        """Return ``confirm`` as a `Confirm`; a number means that many replicas."""
        return confirm if isinstance(confirm, Confirm) else cls(replicas=confirm)


def _check_member(name: str, setting: str) -> None:
    """Raise ConfigurationError unless ``name`` is usable as the name of a member.

    JSON can write other characters in several ways, so a script could not search for them.
    """
    if not (isinstance(name, str) and _MEMBER.fullmatch(name)):
        raise ConfigurationError(
            f"{setting} is 1 to 100 ASCII letters, digits, or of _-.:@$, and not 'id': {name!r}"
        )


def check_integer(value: int, name: str, low: int, high: int) -> None:
    """Raise ConfigurationError unless ``value`` is an integer from ``low`` to ``high``."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigurationError(f"{name} is an integer from {low} to {high}, not {value!r}")


def in_seconds(duration: Any) -> float:
    """Return a timedelta as seconds, anything else as it is."""
    seconds: float = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return seconds


def microseconds(
    duration: Seconds, name: str, limit: float = MAX_VISIBILITY_TIMEOUT, *, zero: bool = False
) -> int:
    """Return a duration as whole microseconds, at least 1, or 0 where ``zero`` is allowed.

    Raises:
        ConfigurationError: neither a number nor a timedelta, too short, or over ``limit`` seconds.
    """
    seconds, low = in_seconds(duration), "0" if zero else "0.000001"
    if (
        not isinstance(seconds, int | float)
        or isinstance(seconds, bool)
        or math.isnan(seconds)
        or not float(low) <= seconds <= limit
    ):
        raise ConfigurationError(f"{name} is {low} to {limit:g} seconds, not {duration!r}")
    return round(seconds * 1_000_000)


def check_seconds(duration: Seconds, name: str, *, zero: bool = False) -> float:
    """Return a duration as seconds, or raise ConfigurationError if it is invalid."""
    value = in_seconds(duration)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 if zero else 1e-3) <= value <= 1e9:
        raise ConfigurationError(
            f"{name} is {'0' if zero else '0.001'} to 1e9 seconds, not {duration!r}"
        )
    return value
