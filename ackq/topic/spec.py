"""A topic as operations see it: keys, settings, and guesses of its current indexes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NoReturn

from redis.exceptions import ResponseError

from ackq.config import check_integer, microseconds
from ackq.core.call import raise_for_type
from ackq.core.effects import Operation, Sleep
from ackq.core.limits import MAX_DEDUP_WINDOW
from ackq.core.outside import Outside
from ackq.errors import ConfigurationError, KeyTypeError
from ackq.topic.keys import ConsumerKeys, TopicKeys

Delivery = Literal["at_least_once", "at_most_once"]
OnTrimmed = Literal["raise", "report"]

#: Most spare keys that one call declares.
MAX_SLACK = 512


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of a topic."""

    #: "at_least_once": a range is leased, and the position moves on commit.
    #: "at_most_once": the position moves on read. Defaults to "at_least_once".
    delivery: Delivery = "at_least_once"
    #: Seconds that a lease lasts, 1e-6 to 43200. Defaults to 30 seconds.
    visibility_timeout: float = 30.0
    #: What consume does if the next messages expired or were trimmed: "raise" `PlaceLost`, or
    #: "report" them in `Batch.missing` and continue. Defaults to "raise".
    on_trimmed: OnTrimmed = "raise"
    #: Seconds after which a message expires, 0.001 to ten years; None: never. Defaults to None.
    max_age: float | None = None
    #: Messages that a publish keeps; older ones are trimmed. None: all. Defaults to None.
    max_messages: int | None = None
    #: Attempts of a publish while other producers are first, 1 to 10000. Defaults to 100.
    publish_attempts: int = 100
    #: Longest body in bytes that publish accepts, 1 to 536870912. Defaults to 1 MiB.
    max_body_bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        """Check that every setting is in its range.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        if self.delivery not in ("at_least_once", "at_most_once"):
            raise ConfigurationError(
                f"delivery is 'at_least_once' or 'at_most_once', not {self.delivery!r}"
            )
        microseconds(self.visibility_timeout, "visibility_timeout")
        if self.on_trimmed not in ("raise", "report"):
            raise ConfigurationError(f"on_trimmed is 'raise' or 'report', not {self.on_trimmed!r}")
        if self.max_age is not None:
            microseconds(self.max_age, "max_age", MAX_DEDUP_WINDOW)
        if self.max_messages is not None:
            check_integer(self.max_messages, "max_messages", 1, 2**53 - 1)
        check_integer(self.publish_attempts, "publish_attempts", 1, 10_000)
        check_integer(self.max_body_bytes, "max_body_bytes", 1, 512 * 1024 * 1024)

    @property
    def max_age_ms(self) -> int:
        """The maximum age in milliseconds, as scripts take it; 0: no expiry."""
        return 0 if self.max_age is None else max(1, round(self.max_age * 1000))


@dataclass(slots=True)
class Guess:
    """Which keys the next call declares: those after an index, and how many spare ones.

    Threads share it without a lock: a wrong guess only costs a round trip.
    """

    after: int = 0
    slack: int = 0
    known: bool = False
    first: int = 1  #: lower indexes were trimmed by count; used only for publishing

    def hit(self, offset: int, after: int) -> None:
        """Record that a call skipped ``offset`` keys, and that the next begins after ``after``."""
        declared_too_many = self.slack - self.slack // 8 - 1
        self.slack = min(MAX_SLACK, max(0, declared_too_many, 2 * offset))
        self.after, self.known = after, True

    def missed(self, after: int) -> None:
        """Record the real index. If it moves from call to call, declare more spare keys."""
        distance = after - self.after
        if self.known and 0 < distance <= MAX_SLACK:
            self.slack = min(MAX_SLACK, 2 * max(self.slack, distance))
        self.after, self.known = after, True


#: Longest pause in seconds between two attempts.
MAX_PAUSE = 0.05


def pause(spec: TopicSpec, attempt: int) -> Sleep:
    """Return a random pause, so that producers that collided do not collide again."""
    return Sleep(spec.outside.fraction() * min(MAX_PAUSE, 0.0005 * 2 ** min(attempt, 10)))


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic."""

    name: str
    keys: TopicKeys
    config: TopicConfig
    #: Random numbers and the time of day.
    outside: Outside = field(kw_only=True, repr=False, compare=False)
    #: Longest blocking command in seconds, below the connection's read timeout.
    block_limit: float = 1.0
    #: The guess of where the next message goes.
    publishing: Guess = field(default_factory=Guess)
    #: The guess of where each consumer reads next, by its id.
    reading: dict[str, Guess] = field(default_factory=dict)

    def raise_for_reply(
        self, error: ResponseError, consumer: ConsumerKeys | None = None
    ) -> Operation[NoReturn]:
        """Raise `KeyTypeError` if a key has another type, else ``error`` itself."""
        what = f"topic {self.name!r}"
        if "ACKQ_VALUE" in str(error):
            raise KeyTypeError(
                f"{what}: {error}. Nothing was changed: a key of the topic holds another value"
            ) from error
        kinds = self.keys.types() | (consumer.types() if consumer else {})
        return raise_for_type(what, kinds, error)
