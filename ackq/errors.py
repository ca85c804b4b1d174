"""Every error that ackq raises.

::

    AckqError
    ├── ConfigurationError (ValueError)   a setting is wrong; nothing was sent
    │   ├── QueueNameError                a name that cannot be, or collides with side keys
    │   ├── CrossSlotError                a cluster needs a hash tag in the name
    │   ├── EvictionPolicyError           the server may drop keys, and messages with them
    │   ├── UnsupportedServer             the server lacks a command that was asked for
    │   ├── LoginRefused (redis.AuthenticationError)  a password is missing, wrong or not wanted
    │   ├── PipelineConfigError           a key of a pipeline's configuration
    │   └── ServerNotFound                no URL was given and no redis-server is at hand
    ├── MessageError (ValueError)         a message cannot be pushed; nothing was sent
    │   ├── InvalidMessage
    │   └── MessageTooLarge
    ├── DuplicateMessage                  a message with this key is stored; it was left as it is
    ├── KeyTypeError                      a key of the queue holds another type; nothing changed
    ├── RSMQError                         what RSMQ calls an error; nothing was changed
    │   ├── MissingParameter (ConfigurationError)      missingParameter
    │   ├── InvalidFormat (ConfigurationError)         invalidFormat
    │   ├── InvalidValue (ConfigurationError)          invalidValue
    │   ├── NoAttributeSupplied (ConfigurationError)   noAttributeSupplied
    │   ├── MessageNotString (InvalidMessage)          messageNotString
    │   ├── MessageTooLong (MessageTooLarge)           messageTooLong
    │   ├── QueueNotFound (LookupError)                queueNotFound
    │   └── QueueExists                                queueExists
    ├── LeaseLost                         a receipt is stale: the message is no longer the caller's
    ├── Fenced                            another query took the group of claims over
    ├── ClaimLost                         a claim was given back, or deleted
    ├── StagingLost                       what a task staged is gone; its batch is not committed
    ├── PublishContention                 other producers were always first; nothing was stored
    ├── IndexTaken                        a message lies beyond a topic's newest index
    ├── NotSubscribed                     a topic does not know the consumer
    ├── PlaceLost                         what a consumer reads next is gone; nothing was skipped
    ├── PushAccount                       its fields say which messages of a push_many are stored
    │   ├── NotConfirmed                      stored, but fewer replicas than asked have it
    │   ├── PartlyStored                      push_many ended early, with some messages stored
    │   └── UnknownOutcome (redis.ConnectionError)   the reply was lost: applied, or not
    └── PipelineFailed                    a pipeline's query ended with an error; nothing is lost
        └── PipelineFenced                    since another one has its group of claims now

What Redis itself reports (``redis.exceptions.*``) passes through unchanged. All
of these can be pickled, so they cross process boundaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Self

import redis


class AckqError(Exception):
    """The base of every error that ackq raises."""

    def __reduce__(self) -> Any:
        # Exceptions with fields of their own do not survive the default
        # reduction, which calls the class with ``args`` alone.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[AckqError], args: tuple[Any, ...], fields: dict[str, Any]) -> AckqError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class ConfigurationError(AckqError, ValueError):
    """A setting is out of range or does not fit the server. Nothing was sent."""


class QueueNameError(ConfigurationError):
    """A queue name that Redis, an ACL pattern or ackq's own side keys cannot bear."""


class CrossSlotError(ConfigurationError):
    """In a cluster the keys of one queue must share a slot: put a hash tag in the name."""


class EvictionPolicyError(ConfigurationError):
    """The server's ``maxmemory-policy`` may evict the keys that hold messages."""


class UnsupportedServer(ConfigurationError):
    """The server is too old for what was asked of it."""


class LoginRefused(redis.AuthenticationError, ConfigurationError):
    """The server wants a password, or does not accept the one that it was given.

    Trying again does not help, so a worker ends with it.
    """


class PipelineConfigError(ConfigurationError):
    """The configuration of a pipeline says what cannot be; ``key`` is where, as section.key."""

    def __init__(self, text: str, *, key: str = "") -> None:
        super().__init__(text)
        self.key = key


class ServerNotFound(ConfigurationError):
    """No URL was given, and there is no redis-server to start."""


class MessageError(AckqError, ValueError):
    """A message cannot be pushed as it is. Nothing was sent."""


class InvalidMessage(MessageError):
    """Neither bytes nor a JSON object with a usable id."""


class MessageTooLarge(MessageError):
    """The encoded body is over the queue's limit."""


class DuplicateMessage(AckqError):
    """A message with this key is stored already, and was left as it is.

    ``keys`` are those that were refused; ``stored`` counts the others of a ``push_many``.
    """

    def __init__(self, text: str, *, keys: tuple[str, ...] = (), stored: int = 0) -> None:
        super().__init__(text)
        self.keys = keys
        self.stored = stored


class KeyTypeError(AckqError):
    """A key of the queue holds a value of another type. Nothing was changed."""


class RSMQError(AckqError):
    """An error condition of RSMQ. Nothing was changed."""


class MissingParameter(RSMQError, ConfigurationError):
    """RSMQ's ``missingParameter``: a queue name or message id is empty."""


class InvalidFormat(RSMQError, ConfigurationError):
    """RSMQ's ``invalidFormat``: a queue name or message id that cannot be one."""


class InvalidValue(RSMQError, ConfigurationError):
    """RSMQ's ``invalidValue``: vt, delay or maxsize is out of range, given or as stored."""


class NoAttributeSupplied(RSMQError, ConfigurationError):
    """RSMQ's ``noAttributeSupplied``: there is nothing to set."""


class MessageNotString(RSMQError, InvalidMessage):
    """RSMQ's ``messageNotString``: neither text nor bytes."""


class MessageTooLong(RSMQError, MessageTooLarge):
    """RSMQ's ``messageTooLong``: more UTF-16 units than the queue's maxsize."""


class QueueNotFound(RSMQError, LookupError):
    """RSMQ's ``queueNotFound``: there is no such queue: create it."""


class QueueExists(RSMQError):
    """RSMQ's ``queueExists``: it has been created before, and keeps its attributes."""


class LeaseLost(AckqError):
    """The caller no longer holds the message, and has not settled it.

    Its lease ended and another consumer has it, it waits to be delivered again, others settled it,
    it died, was purged, or went back to the list; or the caller gave it back with nack or release
    and now asks for something else.

    The messages whose receipts were valid have been settled all the same;
    ``messages`` names only those that were refused, and ``settled`` counts the rest.
    """

    def __init__(self, text: str, *, messages: tuple[Any, ...] = (), settled: int = 0) -> None:
        super().__init__(text)
        self.messages = messages
        self.settled = settled


class Fenced(AckqError):
    """Another process took over the ``group`` of claims. Nothing was changed."""

    def __init__(self, text: str, *, group: str = "") -> None:
        super().__init__(text)
        self.group = group


class ClaimLost(AckqError):
    """A claim does not hold, or no longer, what was asked of it.

    Its lease ended and its messages went back to the queue, it was released, or it was acked and
    deleted. ``group`` and ``batch`` say which.
    """

    def __init__(self, text: str, *, group: str = "", batch: int = 0) -> None:
        super().__init__(text)
        self.group = group
        self.batch = batch


class StagingLost(AckqError):
    """What a task staged is gone or not its own. Nothing of its batch was committed."""


class PublishContention(AckqError):
    """Other producers were first each time that a publish tried. It was not stored.

    ``stored`` counts the messages of a ``publish_many`` that were stored before.
    """

    def __init__(self, text: str, *, stored: int = 0) -> None:
        super().__init__(text)
        self.stored = stored


class IndexTaken(AckqError):
    """A message lies beyond a topic's newest index, and would be overwritten. It was not."""


class NotSubscribed(AckqError):
    """A topic does not know the ``consumer``. Nothing was read."""

    def __init__(self, text: str, *, consumer: str = "") -> None:
        super().__init__(text)
        self.consumer = consumer


class PlaceLost(AckqError):
    """What a consumer reads next expired, was trimmed, or its topic was begun anew.

    ``first`` to ``last`` are the indexes that are gone, at the least; where the topic was begun
    anew ``last`` is its newest index, and lower. The place of ``consumer`` is as it was.
    """

    def __init__(self, text: str, *, consumer: str = "", first: int = 0, last: int = 0) -> None:
        super().__init__(text)
        self.consumer = consumer
        self.first = first
        self.last = last


class PushAccount(AckqError):
    """What an error of ``push_many`` knows about each message that was passed.

    Each message is in exactly one of the three tuples, by its position among those that were
    passed, beginning with 0. All are empty where the error is not from a ``push_many``.
    """

    #: Positions of the messages that are stored.
    stored_positions: tuple[int, ...] = ()
    #: Positions of the messages that may be stored or not, because a reply was lost.
    unknown_positions: tuple[int, ...] = ()
    #: Positions of the messages that are not stored.
    not_stored_positions: tuple[int, ...] = ()

    def account(
        self, stored: Iterable[int], unknown: Iterable[int], not_stored: Iterable[int]
    ) -> Self:
        """Set the positions, and return the error."""
        self.stored_positions = tuple(sorted(stored))
        self.unknown_positions = tuple(sorted(unknown))
        self.not_stored_positions = tuple(sorted(not_stored))
        return self

    def __str__(self) -> str:
        text = super().__str__()
        stored, unknown = len(self.stored_positions), len(self.unknown_positions)
        total = stored + unknown + len(self.not_stored_positions)
        if not total:
            return text
        return (
            f"{text}. Of {total} messages {stored} are stored, {unknown} may be stored,"
            f" {total - stored - unknown} are not stored"
        )


class PartlyStored(PushAccount):
    """A ``push_many`` ended in an error after it had stored some of its messages.

    ``__cause__`` is that error. Push those at ``not_stored_positions`` again, not all: the others
    would be stored twice.
    """

    @property
    def stored(self) -> int:
        """How many messages are stored."""
        return len(self.stored_positions)


class NotConfirmed(PushAccount):
    """The write is on the primary, but fewer servers than asked confirmed it in time.

    ``confirmed`` is the count the server returned, ``required`` what was asked. From
    ``push_many`` it ends the push, so later messages are not stored: see
    ``not_stored_positions``.
    """

    def __init__(self, text: str, *, confirmed: int = 0, required: int = 0) -> None:
        super().__init__(text)
        self.confirmed = confirmed
        self.required = required


class PipelineFailed(AckqError):
    """The query of a pipeline ended with an error. Nothing is lost: what it had taken, but not
    written, is kept for it, and is taken up when the pipeline runs again.

    ``batch`` is the micro-batch that failed; None where it failed outside of one.
    """

    def __init__(self, text: str, *, batch: int | None = None) -> None:
        super().__init__(text)
        self.batch = batch


class PipelineFenced(PipelineFailed):
    """Another process took over the group of claims: one is enough, so do not start it again."""


class UnknownOutcome(PushAccount, redis.ConnectionError):
    """A request was sent and its reply never came: it may have been applied, or not.

    Raised by push and pop, which are never resent blindly: a push would be stored
    twice, a pop would lease a second batch. A message that a lost pop leased comes
    back by itself after its visibility timeout.

    ``stored`` counts the messages of a ``push_many`` that are known to be stored. From
    `Queue.push_many` and `ShardedQueue.push_many` it says of each message whether it is stored, in
    ``stored_positions``, ``unknown_positions`` and ``not_stored_positions``.
    """

    def __init__(self, text: str, *, stored: int = 0) -> None:
        super().__init__(text)
        self.stored = stored


_CREDENTIALS = re.compile(
    r"(?P<kept>\b[a-z+]+://)\S*@|(?P<option>\bpassword=)[^&\s'\"]*", re.IGNORECASE
)


def redact(text: str) -> str:
    """Return ``text`` with the credentials of every URL in it replaced by ``***``."""
    return _CREDENTIALS.sub(
        lambda found: f"{found['kept']}***@" if found["kept"] else f"{found['option']}***", text
    )
