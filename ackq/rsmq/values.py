"""RSMQ's names, limits and values: keys, messages, attributes, and checks of messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

from redis.exceptions import ResponseError

from ackq.config import RecordErrors
from ackq.core.call import raise_for_type
from ackq.core.effects import Operation
from ackq.core.failure import Failure, parse
from ackq.core.inspection_results import DeadLetter
from ackq.core.outside import Outside
from ackq.errors import (
    InvalidFormat,
    InvalidValue,
    MessageNotString,
    MissingParameter,
    QueueNameError,
)

#: Seconds that a received message is hidden, unless the queue has another setting.
DEFAULT_VT = 30
#: Seconds before a sent message is visible, unless the queue has another setting.
DEFAULT_DELAY = 0
#: Longest message in UTF-16 units, unless the queue has another setting.
DEFAULT_MAXSIZE = 65_536
#: Longest vt or delay in seconds: 115 days.
MAX_SECONDS = 9_999_999
#: Range of a queue's maxsize, which may also be `UNLIMITED`. The original ends it at 65536, PyRSMQ
#: at 65565, which is also its default: what is read can be written back.
MAXSIZES = (1024, 65_565)
UNLIMITED = -1

#: The cause of a dead letter for which no error is recorded.
TOO_OFTEN = "received too often"

_QNAME = re.compile(r"[a-zA-Z0-9_-]{1,160}")
_ID = re.compile(r"[a-zA-Z0-9:]{32}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
#: Times above this (the year 5138, in seconds) are read as ms, which some ports write.
_LATEST_SECONDS = 10**11


@dataclass(slots=True)
class RSMQMessage:
    """A message, with RSMQ's names for its parts.

    Attributes:
        id: the id for `delete_message` and `change_message_visibility`.
        body: the bytes that were sent.
        rc: receive count, including this one.
        fr: when it was first received, in ms since the epoch by the server's clock.
    """

    id: str
    body: bytes
    rc: int
    fr: int

    @property
    def message(self) -> str:
        """The body as text; invalid UTF-8 is replaced, as in the original."""
        return self.body.decode(errors="replace")

    @property
    def sent(self) -> float | None:
        """When it was sent, in ms since the epoch; None if the id does not contain it."""
        try:
            return int(self.id[:10], 36) / 1000
        except ValueError:
            return None

    def __repr__(self) -> str:
        # A body may contain secrets, and this text may be logged, so show only the size.
        return f"<RSMQMessage {self.id!r}, {len(self.body)} bytes, rc {self.rc}>"


@dataclass(frozen=True, slots=True)
class QueueAttributes:
    """The settings and counts of a queue at one instant.

    A setting is None if another implementation stored an unreadable value.
    """

    #: Seconds that a received message is hidden; PyRSMQ may store a fraction.
    vt: float | None
    #: Seconds before a sent message can be received; PyRSMQ may store a fraction.
    delay: float | None
    #: Longest message in UTF-16 units, or -1: no limit.
    maxsize: int | None
    #: Messages received so far.
    totalrecv: int
    #: Messages sent so far.
    totalsent: int
    #: When the queue was created, in seconds since the epoch, even if a port wrote ms.
    created: int | None
    #: When its attributes were last set, in the same way.
    modified: int | None
    #: Messages in the queue.
    msgs: int
    #: How many of these are not visible now: received, or delayed.
    hiddenmsgs: int

    @classmethod
    def of(cls, reply: Sequence[Any]) -> QueueAttributes:
        """Return the attributes in the script's reply."""
        vt, delay, maxsize, totalrecv, totalsent, created, modified, msgs, hidden = reply
        return cls(
            _number(vt),
            _number(delay),
            _integer(maxsize),
            count_of(totalrecv),
            count_of(totalsent),
            _seconds(created),
            _seconds(modified),
            msgs,
            hidden,
        )


@dataclass(frozen=True, slots=True)
class RSMQCounters:
    """What happened to the messages of a queue since it was created, at one instant.

    These are RSMQ's own counts, and what follows from them, so they include what other clients
    did. They are read without changing anything, and are lost with the queue.
    """

    #: When this was read and when the queue was created, in seconds since the epoch.
    at: float
    since: int | None
    #: Messages sent: RSMQ's ``totalsent``.
    pushed: int
    #: Messages received, each time they were: RSMQ's ``totalrecv``.
    taken: int
    #: Messages deleted, after or by a receive. Dead letters that were dropped count here, too.
    acked: int
    #: Messages that became dead letters; None before Redis 7, which does not count them.
    dead: int | None
    #: How many dead letters there are.
    letters: int

    @classmethod
    def of(cls, reply: Sequence[Any]) -> RSMQCounters:
        """Return the counts in the script's reply."""
        now, created, sent, received, messages, letters, died = reply
        pushed = count_of(sent)
        return cls(
            now / 1_000_000,
            _seconds(created),
            pushed,
            _integer(received) or 0,
            max(0, pushed - messages - letters),
            died if died >= 0 else None,
            letters,
        )


@dataclass(frozen=True, slots=True)
class RSMQDeadLetter:
    """A message that was received too often. It is not received again unless it is redriven.

    ``died_at`` is in ms since the epoch by the server's clock, as ``fr`` is. ``entry`` is its id in
    the stream of dead letters.
    """

    id: str
    body: bytes
    rc: int
    fr: int | None
    died_at: int
    entry: str
    #: Why its last receives failed, oldest first; see `Failure`. Empty if nothing is recorded.
    errors: tuple[Failure, ...] = ()

    @property
    def cause(self) -> str:
        """What to group dead letters by: the last error's type and place, if it is recorded."""
        return self.errors[-1].cause if self.errors else TOO_OFTEN

    @classmethod
    def of(cls, entry: bytes, fields: Sequence[bytes]) -> RSMQDeadLetter:
        """Return the dead letter in the fields of a stream entry."""
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        return cls(
            values[b"id"].decode(),
            values[b"body"],
            count_of(values[b"rc"]),
            _integer(values[b"fr"]),
            int(values[b"time"]),
            entry.decode(),
            parse(values.get(b"errors", b"")),
        )


def letter_of(entry: Sequence[Any]) -> DeadLetter:
    """Return the dead letter in an entry of the stream, as those of other queues."""
    return as_letter(RSMQDeadLetter.of(*entry))


def as_letter(letter: RSMQDeadLetter) -> DeadLetter:
    """Return a dead letter as those of other queues."""
    return DeadLetter(
        letter.entry,
        letter.id,
        letter.body,
        TOO_OFTEN,
        letter.rc,
        letter.died_at / 1000,
        letter.errors,
    )


@dataclass(frozen=True, slots=True)
class RSMQKeys:
    """The keys of one queue: RSMQ's two, and ackq's own, which exist only while needed.

    Queue names cannot contain a full stop, so ackq's keys never belong to another queue.
    """

    zset: bytes
    hash: bytes
    wake: bytes
    waiters: bytes
    dead: bytes
    errors: bytes

    def types(self) -> dict[bytes, str]:
        """Return the type of every key whose type matters."""
        return {
            self.zset: "zset",
            self.hash: "hash",
            self.wake: "list",
            self.dead: "stream",
            self.errors: "hash",
        }


@dataclass(frozen=True, slots=True)
class RSMQSpec:
    """One namespace, and this client's settings for it."""

    ns: str
    realtime: bool = False
    max_receives: int = 0
    record_errors: RecordErrors = "text"
    #: Longest blocking command in seconds, below the connection's read timeout.
    block_limit: float = 1.0
    #: Random numbers and the time of day.
    outside: Outside = field(kw_only=True, repr=False, compare=False)

    @property
    def queues(self) -> bytes:
        """The key of the set of queue names."""
        return f"{self.ns}:QUEUES".encode()

    def keys(self, qname: str) -> RSMQKeys:
        """Return the keys of a queue.

        Raises:
            MissingParameter: the name is empty.
            InvalidFormat: it is not 1 to 160 letters, digits, ``_`` or ``-``.
        """
        if type(qname) is not str:
            check_text(qname, "qname", _QNAME)
        return _keys(self.ns, qname)

    def raise_for_reply(self, error: ResponseError, qname: str) -> Operation[NoReturn]:
        """Raise `KeyTypeError` if a key has another type, else ``error`` itself."""
        expected = {**self.keys(qname).types(), self.queues: "set"}
        return raise_for_type(f"RSMQ queue {qname!r}", expected, error)

    def channel(self, qname: str) -> str:
        """Return the channel of realtime notices; empty if none are sent."""
        return f"{self.ns}:rt:{qname}" if self.realtime else ""


@lru_cache(maxsize=1024)
def _keys(ns: str, qname: str) -> RSMQKeys:
    check_text(qname, "qname", _QNAME)
    zset = f"{ns}:{qname}".encode()
    own = (zset + b":Q." + suffix for suffix in (b"wake", b"waiters", b"dead", b"errors"))
    return RSMQKeys(zset, zset + b":Q", *own)


def check_namespace(ns: str) -> None:
    """Refuse a namespace that a terminal or Redis would misread.

    Raises:
        QueueNameError: not text, empty, over 200 bytes, or with control characters.
    """
    try:
        fits = isinstance(ns, str) and 1 <= len(ns.encode()) <= 200
    except UnicodeEncodeError:
        fits = False
    if not fits or _UNPRINTABLE.search(ns):
        raise QueueNameError(f"ns is 1 to 200 bytes of printable text, not {ns!r}")


def check_id(id: str) -> str:
    """Return a message id as it is.

    Raises:
        MissingParameter: it is empty.
        InvalidFormat: it is not 32 letters, digits or colons.
    """
    return check_text(id, "id", _ID)


def check_text(value: str, item: str, pattern: re.Pattern[str]) -> str:
    """Return ``value`` if it matches ``pattern``."""
    if value is None or value == "":
        raise MissingParameter(f"No {item} supplied")
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidFormat(f"Invalid {item} format: {value!r} does not match {pattern.pattern}")
    return value


def check_seconds(value: int, item: str) -> int:
    """Return a vt or delay as it is.

    Raises:
        InvalidValue: not an integer from 0 to 9999999.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SECONDS:
        raise InvalidValue(
            f"{item} must be an integer between 0 and {MAX_SECONDS} s, not {value!r}"
        )
    return value


def check_maxsize(value: int) -> int:
    """Return a maxsize as it is.

    Raises:
        InvalidValue: not an integer from 1024 to 65565, nor -1.
    """
    low, high = MAXSIZES
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or not (low <= value <= high or value == UNLIMITED):
        raise InvalidValue(
            f"maxsize must be an integer between {low} and {high}, or -1, not {value!r}"
        )
    return value


def encoded(message: str | bytes) -> bytes:
    """Return the body of a message.

    Raises:
        MessageNotString: another type, or text that is no Unicode.
    """
    if isinstance(message, bytes):
        return message
    if not isinstance(message, str):
        raise MessageNotString(
            f"Message must be a string (or bytes), not {type(message).__name__}: encode it first"
        )
    try:
        return message.encode()
    except UnicodeEncodeError as error:
        raise MessageNotString(f"Message must be a string of valid Unicode: {error}") from None


def _number(text: bytes | None) -> float | None:
    try:
        value = float(text or b"")
    except ValueError:
        return None
    if not -1 <= value <= 2**53:
        return None
    return int(value) if value.is_integer() else value


def _integer(text: bytes | None) -> int | None:
    value = _number(text)
    return None if value is None else int(value)


def count_of(text: bytes | None) -> int:
    """Return a receive count; 0 if there is none, or another client wrote something else."""
    return _integer(text) or 0


def _seconds(text: bytes | None) -> int | None:
    value = _integer(text)
    return value // 1000 if value is not None and value > _LATEST_SECONDS else value
