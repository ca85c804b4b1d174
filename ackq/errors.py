"""Every error that ackq raises.

::

    AckqError
    ├── ConfigurationError (ValueError)  a setting is wrong; nothing was sent
    │   ├── QueueNameError               a name that is invalid or collides with side keys
    │   ├── CrossSlotError               a cluster needs a hash tag in the name
    │   ├── PopFromMismatch              the queue is popped from the other end of its list
    │   ├── GroupsMismatch               the queue has other groups, or none
    │   ├── EvictionPolicyError          the server may evict keys, and messages with them
    │   ├── UnsupportedServer            the server lacks a command that is needed
    │   ├── LoginRefused                 a password is missing, wrong or not expected;
    │   │                                also a redis.AuthenticationError
    │   ├── PipelineConfigError          an invalid key in a pipeline's configuration
    │   └── ServerNotFound               no URL was given and no redis-server was found
    ├── MessageError (ValueError)        a message cannot be pushed; nothing was sent
    │   ├── InvalidMessage               neither bytes nor a JSON object with a usable id
    │   │   └── InvalidArguments         they do not fit the task
    │   └── MessageTooLarge              its body is over the limit
    ├── DuplicateMessage                 a message with this key is stored; it was not changed
    ├── KeyTypeError                     a key has another type; also redis.ResponseError
    ├── RSMQError                        an error defined by RSMQ; nothing was changed
    │   ├── MissingParameter             missingParameter; also a ConfigurationError
    │   ├── InvalidFormat                invalidFormat; also a ConfigurationError
    │   ├── InvalidValue                 invalidValue; also a ConfigurationError
    │   ├── NoAttributeSupplied          noAttributeSupplied; also a ConfigurationError
    │   ├── MessageNotString             messageNotString; also an InvalidMessage
    │   ├── MessageTooLong               messageTooLong; also a MessageTooLarge
    │   ├── QueueNotFound                queueNotFound; also a LookupError
    │   └── QueueExists                  queueExists
    ├── LeaseLost                        the lease has ended; the settle was refused
    ├── Fenced                           another query took over the group of claims
    ├── ClaimLost                        a claim was returned to the queue, or deleted
    ├── CheckpointMismatch               a checkpoint or Redis was restored or copied
    ├── StagingLost                      staged rows are gone; nothing was committed
    ├── BatchSuperseded                  its writer has begun another batch; nothing was written
    ├── PublishContention                other producers were always first; nothing was stored
    ├── IndexTaken                       a message exists beyond a topic's newest index
    ├── NotSubscribed                    the consumer is not subscribed to the topic
    ├── PlaceLost                        a consumer's next messages are gone; none was skipped
    ├── SchemaRegistryError              a schema registry does not answer; nothing is lost
    ├── PushAccount                      lists which messages of a push_many are stored
    │   ├── NotConfirmed                 stored, but confirmed by too few replicas
    │   ├── PartlyStored                 push_many ended early, with some messages stored
    │   └── UnknownOutcome               the reply was lost, and the request may have been
    │                                    applied; also a redis.ConnectionError
    └── PipelineFailed                   a pipeline ended with an error; nothing is lost
        └── PipelineFenced               another process took over its group of claims

Errors from redis-py (``redis.exceptions.*``) pass through unchanged. All errors listed here can
be pickled, so they can cross process boundaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Self

import redis


class AckqError(Exception):
    """The base of every error that ackq raises."""

    def __reduce__(self) -> Any:
        # The default reduction calls the class with ``args`` alone, so it fails for exceptions
        # with additional fields.
        return _rebuild, (type(self), self.args, self.__dict__)


#: What a call may raise: errors of the server, of the connection and of ackq. Anything else is a
#: mistake in a program.
EXPECTED = (redis.RedisError, OSError, AckqError)


def _rebuild(cls: type[AckqError], args: tuple[Any, ...], fields: dict[str, Any]) -> AckqError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class ConfigurationError(AckqError, ValueError):
    """A setting is out of range or does not fit the server. Nothing was sent."""


class QueueNameError(ConfigurationError):
    """A queue name that does not work with Redis, ACL patterns or ackq's own side keys."""


class CrossSlotError(ConfigurationError):
    """The keys of a queue do not share one cluster slot: put a hash tag in its name."""


class PopFromMismatch(ConfigurationError):
    """The queue is popped from the other end of its list. Nothing was changed.

    ``recorded`` is that end: "left" or "right".
    """

    def __init__(self, text: str, *, recorded: str = "") -> None:
        super().__init__(text)
        self.recorded = recorded


class GroupsMismatch(ConfigurationError):
    """The queue and this client differ in their groups or in max_in_flight. Nothing was changed.

    ``recorded`` has the queue's settings as text, such as "max_in_flight=40", or "groups=None".
    """

    def __init__(self, text: str, *, recorded: str = "") -> None:
        super().__init__(text)
        self.recorded = recorded


class EvictionPolicyError(ConfigurationError):
    """The server's ``maxmemory-policy`` may evict the keys that hold messages."""


class UnsupportedServer(ConfigurationError):
    """The server is too old for the requested operation."""


class LoginRefused(redis.AuthenticationError, ConfigurationError):
    """The server requires a password, or rejects the one that was given.

    Retrying does not help, so a worker ends with this error.
    """


class PipelineConfigError(ConfigurationError):
    """A pipeline's configuration is invalid. ``key`` says where, as section.key."""

    def __init__(self, text: str, *, key: str = "") -> None:
        super().__init__(text)
        self.key = key


class ServerNotFound(ConfigurationError):
    """No URL was given, and there is no redis-server to start."""


class MessageError(AckqError, ValueError):
    """A message cannot be pushed as it is. Nothing was sent."""


class InvalidMessage(MessageError):
    """Neither bytes nor a JSON object with a usable id."""


class InvalidArguments(InvalidMessage):
    """The arguments do not fit the signature of the ``task``. The text shows none of the values."""

    def __init__(self, text: str, *, task: str = "") -> None:
        super().__init__(f"task {task!r}: {text}" if task else text)
        self.task = task

    @property
    def reason(self) -> str:
        """The text without the task."""
        return str(self).removeprefix(f"task {self.task!r}: ")


class MessageTooLarge(MessageError):
    """The encoded body is longer than the queue's limit."""


class DuplicateMessage(AckqError):
    """A message with this key is already stored, and was not changed.

    ``keys`` are the refused keys. ``stored`` counts the messages that a ``push_many`` did store.
    """

    def __init__(self, text: str, *, keys: tuple[str, ...] = (), stored: int = 0) -> None:
        super().__init__(text)
        self.keys = keys
        self.stored = stored


class KeyTypeError(AckqError, redis.ResponseError):
    """A key of the queue holds a value of another type. Nothing was changed.

    It is also what redis-py raises for ``WRONGTYPE``, so existing handlers catch it.
    """


class RSMQError(AckqError):
    """An error condition of RSMQ. Nothing was changed."""


class MissingParameter(RSMQError, ConfigurationError):
    """RSMQ's ``missingParameter``: a queue name or message id is empty."""


class InvalidFormat(RSMQError, ConfigurationError):
    """RSMQ's ``invalidFormat``: a queue name or message id is malformed."""


class InvalidValue(RSMQError, ConfigurationError):
    """RSMQ's ``invalidValue``: vt, delay or maxsize, as passed or as stored, is out of range."""


class NoAttributeSupplied(RSMQError, ConfigurationError):
    """RSMQ's ``noAttributeSupplied``: there is nothing to set."""


class MessageNotString(RSMQError, InvalidMessage):
    """RSMQ's ``messageNotString``: the message is neither text nor bytes."""


class MessageTooLong(RSMQError, MessageTooLarge):
    """RSMQ's ``messageTooLong``: the message has more UTF-16 units than the queue's maxsize."""


class QueueNotFound(RSMQError, LookupError):
    """RSMQ's ``queueNotFound``: the queue does not exist. Create it first."""


class QueueExists(RSMQError):
    """RSMQ's ``queueExists``: the queue already exists, and keeps its attributes."""


class LeaseLost(AckqError):
    """The caller no longer has the lease of a message, and has not settled it.

    The lease ended, and the message is ready again, leased to another consumer, settled, dead or
    purged. Or the caller returned it with nack or release, and now asks for something else. Or
    nobody can say: the reply to an earlier request was lost, and that request may have settled
    the message before its id was used again. Then ``maybe_settled`` of the message is True.

    Messages with valid receipts have been settled anyway. ``messages`` contains only the refused
    ones, and ``settled`` counts the others.
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
    """A claim does not contain the requested messages, or no longer.

    Its lease ended and its messages were returned to the queue, or it was released, or it was
    acked and deleted. ``group`` and ``batch`` identify it.
    """

    def __init__(self, text: str, *, group: str = "", batch: int = 0) -> None:
        super().__init__(text)
        self.group = group
        self.batch = batch


class CheckpointMismatch(AckqError):
    """A checkpoint and Redis disagree about what was done: one of them was restored or copied.

    Nothing was claimed, written or acked. The text says which one is older, and what to do.
    """


class StagingLost(AckqError):
    """Rows that a task staged are gone, or not its own. Its batch was not committed."""


class BatchSuperseded(AckqError):
    """A writer of dead letters has begun another batch, or none. The rows were not written."""


class PublishContention(AckqError):
    """Other producers were first at each attempt to publish. Nothing more was stored.

    ``stored`` counts the messages that a ``publish_many`` had stored before.
    """

    def __init__(self, text: str, *, stored: int = 0) -> None:
        super().__init__(text)
        self.stored = stored


class IndexTaken(AckqError):
    """A publish would have overwritten a message beyond a topic's newest index, and was refused."""


class NotSubscribed(AckqError):
    """The ``consumer`` is not subscribed to the topic. Nothing was read."""

    def __init__(self, text: str, *, consumer: str = "") -> None:
        super().__init__(text)
        self.consumer = consumer


class PlaceLost(AckqError):
    """A consumer's next messages expired or were trimmed, or its topic was deleted and restarted.

    At least the indexes ``first`` to ``last`` are gone. If the topic was restarted, ``last`` is
    its newest index, which is lower. The position of ``consumer`` has not changed.
    """

    def __init__(self, text: str, *, consumer: str = "", first: int = 0, last: int = 0) -> None:
        super().__init__(text)
        self.consumer = consumer
        self.first = first
        self.last = last


class SchemaRegistryError(AckqError):
    """A schema registry refuses to answer, or could not be reached for ``retryTimeoutMs``.

    The query ends. Its messages stay claimed, and the next run begins with them.
    """


class PushAccount(AckqError):
    """The base of errors that list which messages of a ``push_many`` are stored.

    Each message is in exactly one of the three tuples, by its position in the call, from 0. All
    three are empty if the error is not from a ``push_many``.
    """

    #: Positions of the messages that are stored.
    stored_positions: tuple[int, ...] = ()
    #: Positions of the messages that may or may not be stored, because a reply was lost.
    unknown_positions: tuple[int, ...] = ()
    #: Positions of the messages that are not stored. A unique message that was refused is one.
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

    ``__cause__`` is that error. Push only the messages at ``not_stored_positions`` again: the
    others would be stored twice.
    """

    @property
    def stored(self) -> int:
        """How many messages are stored."""
        return len(self.stored_positions)


class NotConfirmed(PushAccount):
    """The write is on the primary, but fewer servers than required confirmed it in time.

    ``confirmed`` is the count that the server returned, ``required`` the count that was asked
    for. It ends a ``push_many``, so later messages are not stored: see ``not_stored_positions``.
    """

    def __init__(self, text: str, *, confirmed: int = 0, required: int = 0) -> None:
        super().__init__(text)
        self.confirmed = confirmed
        self.required = required


class PipelineFailed(AckqError):
    """The query of a pipeline ended with an error. Nothing is lost: messages that it took but
    did not write are kept, and processed when the pipeline runs again.

    ``batch`` is the micro-batch that failed, or None if it failed outside of one.
    """

    def __init__(self, text: str, *, batch: int | None = None) -> None:
        super().__init__(text)
        self.batch = batch


class PipelineFenced(PipelineFailed):
    """Another process took over the group of claims. Do not start this one again."""


class UnknownOutcome(PushAccount, redis.ConnectionError):
    """A request was sent and its reply was lost, so it may have been applied or not.

    It is also raised for a script that ended halfway because its slot is being moved.

    Push and pop raise this error because they are never resent blindly: a push would be stored
    twice, and a pop would lease a second batch. Messages leased by a pop whose reply was lost are
    delivered again after their visibility timeout.

    ``stored`` counts the messages of a ``push_many`` that are known to be stored. From
    `Queue.push_many` and `ShardedQueue.push_many`, ``stored_positions``, ``unknown_positions``
    and ``not_stored_positions`` list each message.
    """

    def __init__(self, text: str, *, stored: int = 0) -> None:
        super().__init__(text)
        self.stored = stored


#: The placeholders of ackq's own advice are left.
_CREDENTIALS = re.compile(
    r"(?P<kept>\b[a-z+]+://)(?!(?-i:(?:USER)?:PASSWORD)@[^\s@]*(?:\s|$))\S*@"
    r"|(?P<option>\bpassword=)[^&\s'\"]*",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return ``text`` with the credentials of every URL in it replaced by ``***``."""
    return _CREDENTIALS.sub(
        lambda matched: f"{matched['kept']}***@" if matched["kept"] else f"{matched['option']}***",
        text,
    )
