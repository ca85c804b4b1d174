"""What operators can do with a queue of some kind: `Kind`; and such a queue, open: `Opened`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import redis
from redis.exceptions import ResponseError

from ackq.core.client import Closable
from ackq.core.effects import Operation, Request
from ackq.core.inspection_results import DeadLetter
from ackq.core.io.lender import Lender
from ackq.ops.readings import Asked, Found, KindName, Reading

Redis = redis.Redis | redis.RedisCluster
#: What can be done with a whole queue; not every kind can do all of it.
Verb = Literal[
    "stats",
    "peek",
    "find",
    "search",
    "dead",
    "claims",
    "purge",
    "pause",
    "push",
    "pop",
    "delayed",
    "run_now",
    "cancel",
    "schedules",
    "seek",
    "workers",
    "work",
    "groups",
]

#: Longest body in bytes. High, so that no operator's tool dead-letters a message for its size.
MAX_BODY_BYTES = 512 * 1024 * 1024


class Part(Protocol):
    """A queue, shard or partition with its own dead letters."""

    @property
    def name(self) -> str:
        """The name under which it is a queue by itself."""

    def dead_letters(self, n: int = 100, *, after: str | None = None) -> list[DeadLetter]:
        """Return up to ``n`` dead letters that follow an entry, oldest first."""

    def redrive(self, n: int | None = None, *, entries: Iterable[str] = ()) -> int:
        """Make the oldest dead letters, or those with these entries, ready again."""

    def drop_dead_letters(self, *entries: str) -> int:
        """Delete dead letters."""


@dataclass(frozen=True, slots=True)
class Opened(Closable):
    """An open queue."""

    kind: Kind
    name: str
    #: The client. What the kind does is called the same in the client of every such kind.
    client: Any
    #: Returns the parts with their own messages and dead letters, in order: each a `Part`, with a
    #: `peek` if the kind does that. The queue itself, unless it has shards or partitions.
    parts: Callable[[], Sequence[Any]]
    #: Whether it has shards or partitions.
    divided: bool = False
    #: Returns whether it has any key. Always true for kinds whose queues have keys even if they are
    #: empty: to open or count one that does not exist raises an error.
    has_keys: Callable[[], bool] = lambda: True
    #: Has the connections, if these are lent.
    lender: Lender | None = None

    def close(self) -> None:
        """Close the connections."""
        self.client.close()
        if self.lender is not None:
            self.lender.close()


def _nothing(client: Any, named: str) -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What operators can do with the queues of one kind, and how to read their figures."""

    name: KindName
    #: The name on the page and in sentences.
    label: str
    called: str
    #: What its shards or partitions are called, one of them.
    part: str
    does: frozenset[Verb]
    #: Opens a queue, from a client, its name and settings.
    open: Callable[..., Opened]
    #: Counts messages, given the client of an open queue or a part. Has "dead" if the kind does.
    stats: Callable[[Any], dict[str, Any]]
    #: Reads the figures of a queue or part, given its name and a topic's consumers.
    read: Callable[[str, Sequence[str], Asked], Operation[Reading]]
    #: Finds the parts with their own messages by the name of a queue.
    look_up: Callable[[str], Operation[list[Found]]]
    #: Raises an error if keys with such names belong to another program.
    check: Callable[[str], Operation[None]]
    #: Whether "find" looks up an id, so that it searches only the dead letters.
    looks_up_ids: bool = False
    #: Reasons why it does not do some of the other verbs, where users may expect them.
    refusals: Mapping[Verb, str] = field(default_factory=dict)
    #: Returns the name of the stream of dead letters of a part.
    dead: Callable[[str], bytes] | None = None
    #: Returns the dead letter that is in an entry of that stream.
    letter: Callable[[Sequence[Any]], DeadLetter] | None = None
    #: Makes a delayed message ready, given the client and the entry or key of the message.
    run_now: Callable[[Any, str], int | bool] = _nothing
    #: Whether a canceled message becomes a dead letter. If not, it is deleted.
    keeps_canceled: bool = False
    #: Releases the claims of a group, given the client and the group, and returns how many
    #: messages these had.
    release_claims: Callable[[Any, str], int] = _nothing


def has_type(key: str, expected: bytes) -> Operation[bool]:
    """Return whether a key has this type, as far as this user may ask."""
    actual = yield from unless_denied(Request((b"TYPE", key), resend=True))
    return actual == expected


def unless_denied(request: Request) -> Operation[bytes | None]:
    """Return the reply, or None if it is an error.

    The user is not there for such a queue, the key is on another node, or has another type.
    """
    try:
        return (yield request)  # type: ignore[no-any-return]
    except ResponseError:
        return None


def unchecked(name: str) -> Operation[None]:
    """Take any queue for one of this kind: the names of its keys are rare."""
    yield from ()


def age_of_first(key: bytes, unit: float, now: int | None) -> Operation[float | None]:
    """Return for how many seconds the first message of a sorted set has been ready.

    Args:
        key: of the set. Its scores are the times at which messages are ready.
        unit: of the scores, in seconds.
        now: the server's time in µs; None: unknown.
    """
    first = yield Request((b"ZRANGE", key, 0, 0, b"WITHSCORES"), resend=True)
    if now is None or not first:
        return None
    score = first[0][1] if isinstance(first[0], list) else first[1]  # as in RESP3, or RESP2
    return max(0.0, now / 1_000_000 - float(score) * unit)
