# Written by tools/blocking.py: edit client_async.py instead, then run make clients.
"""`RSMQ`: queues shared with the JavaScript original and its ports, blocking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import redis

from ackq.config import QueueConfig, RecordErrors, Seconds, check_integer
from ackq.core.client import Client, client_of
from ackq.core.inspection_results import Found
from ackq.core.io.outside import SYSTEM
from ackq.core.search_terms import WITHIN, OnProgress
from ackq.rsmq import operations, places
from ackq.rsmq.values import (
    DEFAULT_DELAY,
    DEFAULT_MAXSIZE,
    DEFAULT_VT,
    QueueAttributes,
    RSMQCounters,
    RSMQDeadLetter,
    RSMQMessage,
    RSMQSpec,
    check_namespace,
)
from ackq.setting_types import check_types


class RSMQ(Client):
    """The queues of one RSMQ namespace, shared with any other RSMQ client on the same keys.

    Guarantee: at least once with `receive_message` and `delete_message`: a received message is
    hidden for ``vt`` seconds, then visible again unless it was deleted. `pop_message` is at most
    once. As everywhere in RSMQ, a delete is not fenced: a late one deletes a message that another
    consumer has received. Times are the server's. Cost: one round trip per operation.

    Safe to share between threads, and after a fork.
    This object opens its own connections with the client's settings. Close it, or use it as
    a context manager.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        ns: str = "rsmq",
        *,
        realtime: bool = False,
        max_receives: int | None = None,
        record_errors: RecordErrors = "text",
    ) -> None:
        """Set up namespace ``ns``. Nothing is sent before the first operation.

        Args:
            client: any redis-py client: standalone, Sentinel's `master_for`, or cluster. Its
                address, credentials, TLS and timeouts are used, but not its connections.
            ns: the namespace; in a cluster it needs a hash tag: ``{rsmq}``. Defaults to "rsmq".
            realtime: publish a notice for each sent message, as the original does: the number of
                messages, on ``{ns}:rt:{qname}``. Defaults to False.
            max_receives: receives after which this client moves a message to the dead letters
                instead of returning it. Other clients ignore this limit and still receive such a
                message. Defaults to None, no limit.
            record_errors: what to store about the error passed to `change_message_visibility`:
                "none", "type", "text" or "traceback", as for `ackq.Queue`. Defaults to "text".

        Raises:
            QueueNameError: the namespace cannot be used.
            ConfigurationError: ``max_receives`` is not 1 to 1,000,000, or ``record_errors`` is
                another word.
        """
        check_namespace(ns)
        check_types(QueueConfig, {"record_errors": record_errors})
        if max_receives is not None:
            check_integer(max_receives, "max_receives", 1, 1_000_000)
        super().__init__(client, ns)
        self._spec = RSMQSpec(
            ns,
            bool(realtime),
            max_receives or 0,
            record_errors,
            self._block_limit,
            outside=SYSTEM,
        )

    @classmethod
    def from_url(cls, url: str | None, ns: str = "rsmq", **settings: Any) -> Self:
        """Return namespace ``ns`` on the server at ``url``, with the settings of `RSMQ`.

        Args:
            url: as in `redis.Redis.from_url`. None: use the embedded server; start it if needed.
            ns: the namespace. Defaults to "rsmq".
            settings: the keyword arguments of `RSMQ`.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), ns, **settings)

    @property
    def ns(self) -> str:
        """The namespace."""
        return self._spec.ns

    def create_queue(
        self,
        qname: str,
        vt: int = DEFAULT_VT,
        delay: int = DEFAULT_DELAY,
        maxsize: int = DEFAULT_MAXSIZE,
    ) -> None:
        """Create a queue and add it to the namespace's list, both or neither.

        Args:
            qname: 1 to 160 letters, digits, ``_`` or ``-``.
            vt: seconds that a received message is hidden, 0 to 9999999. Defaults to 30.
            delay: seconds before a sent message is visible, 0 to 9999999. Defaults to 0.
            maxsize: longest message in UTF-16 units, 1024 to 65565, or -1: no limit. Defaults
                to 65536, as in the original.

        Raises:
            QueueExists: it exists and keeps its attributes. If it was not listed, it is now.
            MissingParameter: ``qname`` is empty.
            InvalidFormat: ``qname`` is not a valid name.
            InvalidValue: a number is out of range.
            UnknownOutcome: the reply was lost, so the queue may or may not be created.
        """
        self._run(operations.create_queue(self._spec, qname, vt, delay, maxsize))

    def list_queues(self) -> list[str]:
        """Return the names of the namespace's queues, sorted."""
        return self._run(operations.list_queues(self._spec))

    def delete_queue(self, qname: str) -> None:
        """Delete a queue for good, with all its messages and dead letters.

        Raises:
            QueueNotFound: there is none.
            UnknownOutcome: the reply was lost; deleted or not.
        """
        self._run(operations.delete_queue(self._spec, qname))

    def get_queue_attributes(self, qname: str) -> QueueAttributes:
        """Return a queue's settings and counts, all of one instant.

        Raises:
            QueueNotFound: there is none.
        """
        return self._run(operations.attributes(self._spec, qname))

    def counters(self, qname: str) -> RSMQCounters:
        """Return what happened to messages since the queue was created. Cost: one round trip.

        Raises:
            QueueNotFound: there is none.
        """
        return self._run(operations.counters(self._spec, qname))

    def set_queue_attributes(
        self,
        qname: str,
        vt: int | None = None,
        delay: int | None = None,
        maxsize: int | None = None,
    ) -> QueueAttributes:
        """Change the given settings, and return all attributes after the change.

        Args:
            qname: the queue.
            vt: as in `create_queue`.
            delay: as in `create_queue`.
            maxsize: as in `create_queue`.

        Raises:
            NoAttributeSupplied: none is given.
            InvalidValue: a number is out of range; nothing was changed.
            QueueNotFound: there is no such queue.
        """
        changes = {"vt": vt, "delay": delay, "maxsize": maxsize}
        return self._run(operations.attributes(self._spec, qname, changes))

    def send_message(self, qname: str, message: str | bytes, delay: int | None = None) -> str:
        """Store one message and return its id.

        Args:
            qname: the queue.
            message: text, or bytes, which are stored unchanged.
            delay: seconds until it is visible, 0 to 9999999. Defaults to the queue's.

        Raises:
            QueueNotFound: there is no such queue.
            MessageNotString: another type.
            MessageTooLong: over the queue's maxsize.
            InvalidValue: ``delay`` is out of range.
            UnknownOutcome: the reply was lost, so the message may or may not be stored.
        """
        return self._perform(operations.send_message, self._spec, qname, message, delay)

    def send_messages(
        self, qname: str, messages: Iterable[str | bytes], delay: int | None = None
    ) -> list[str]:
        """Store many messages and return their ids. The first is received first.

        Cost: one round trip per chunk of 1,000 messages or 1 MiB. Messages longer than 1 KiB that
        are not pure ASCII count eightfold. Each chunk is stored whole or not at all.

        Args:
            qname: the queue.
            messages: as in `send_message`.
            delay: as in `send_message`, for all of them.

        Raises:
            QueueNotFound: as in `send_message`.
            MessageNotString: as in `send_message`; nothing was sent.
            MessageTooLong: as in `send_message`; a note says how many earlier ones are stored.
            InvalidValue: as in `send_message`.
            UnknownOutcome: as in `send_message`; ``stored`` counts the messages known to be stored.
        """
        return self._perform(operations.send_messages, self._spec, qname, messages, delay)

    def receive_message(
        self, qname: str, vt: int | None = None, timeout: Seconds | None = None
    ) -> RSMQMessage | None:
        """Return the next visible message and hide it for ``vt``; None if there is none in time.

        See `receive_messages`.
        """
        messages = self._perform(operations.receive_messages, self._spec, qname, 1, vt, timeout)
        return messages[0] if messages else None

    def receive_messages(
        self, qname: str, n: int, vt: int | None = None, timeout: Seconds | None = None
    ) -> list[RSMQMessage]:
        """Return up to ``n`` visible messages and hide each for ``vt`` seconds.

        Guarantee: no other consumer receives them until then. After that, they are visible again
        unless they were deleted. A waiting call notices messages sent by ackq at once, and those
        sent by other clients within a second.

        Args:
            qname: the queue.
            n: how many at most. One call takes at most 1,000 messages or 1 MiB. A message on its
                last permitted receive is returned alone.
            vt: seconds, 0 to 9999999. Defaults to the queue's.
            timeout: seconds to wait for the first message. None: do not wait; ``math.inf``: wait
                forever.

        Returns:
            0 to ``n`` messages, oldest first. More may be visible, even if there are fewer.

        Raises:
            QueueNotFound: there is no such queue.
            InvalidValue: ``vt`` is out of range, or the queue's own cannot be read.
            UnknownOutcome: the reply was lost. Received messages are visible again after ``vt``.
        """
        return self._perform(operations.receive_messages, self._spec, qname, n, vt, timeout)

    def pop_message(self, qname: str, timeout: Seconds | None = None) -> RSMQMessage | None:
        """Return the next visible message and delete it; None if there is none in time.

        AT MOST ONCE: a message is lost if its consumer dies, or if the reply is lost.

        Args:
            qname: the queue.
            timeout: as in `receive_messages`.

        Raises:
            QueueNotFound: there is no such queue.
            UnknownOutcome: the reply was lost, and with it the message, if there was one.
        """
        messages = self._perform(
            operations.receive_messages, self._spec, qname, 1, None, timeout, "remove"
        )
        return messages[0] if messages else None

    def delete_message(self, qname: str, id: str) -> bool:
        """Delete a message, and return whether it was there.

        NOT FENCED, as in RSMQ: it is deleted even if another consumer has received it. If the
        reply is lost, the call is sent again, and may return False for a message that it deleted.

        Raises:
            MissingParameter: an argument is empty.
            InvalidFormat: ``id`` is not 32 letters, digits or colons.
        """
        return self._perform(operations.delete_messages, self._spec, qname, (id,)) == 1

    def delete_messages(self, qname: str, ids: Iterable[str]) -> int:
        """Delete many messages, and return how many were there; see `delete_message`.

        One round trip per 1,000.
        """
        return self._perform(operations.delete_messages, self._spec, qname, ids)

    def change_message_visibility(
        self, qname: str, id: str, vt: int, *, error: BaseException | None = None
    ) -> bool:
        """Make a message visible ``vt`` seconds from now, and return whether it exists.

        Args:
            qname: the queue.
            id: of the message.
            vt: seconds from now, 0 to 9999999.
            error: why the work on it failed, stored as ``record_errors`` says, for its last five
                receives. If it becomes a dead letter, `dead_letters` returns it. Defaults to None.

        Raises:
            QueueNotFound: there is no such queue.
            InvalidFormat: ``id`` is not 32 letters, digits or colons.
            InvalidValue: ``vt`` is out of range.
        """
        return self._run(operations.change_message_visibility(self._spec, qname, id, vt, error))

    def find(
        self,
        qname: str,
        id: str,
        *,
        within: int | None = WITHIN,
        on_progress: OnProgress | None = None,
    ) -> Found | None:
        """Return where a message is, or None if it was deleted. Nothing is changed.

        A hidden message is "in_flight" if it was received before, else "delayed": RSMQ stores no
        more about it. Cost: five round trips, O(log messages); if it is not in the queue, one per
        100 dead letters or 1 MiB that are looked through.

        Args:
            qname: the queue.
            id: of the message.
            within: how many dead letters to look through, the newest first. None: all. Defaults to
                20000.
            on_progress: called with the number of dead letters that were looked at since the last
                call. Defaults to None.

        Raises:
            InvalidFormat: ``id`` is not 32 letters, digits or colons.
            ConfigurationError: ``within`` is out of range.
        """
        return self._run(places.find(self._spec, qname, id, within, on_progress))

    def dead_letters(
        self, qname: str, n: int = 100, *, after: str | None = None
    ) -> list[RSMQDeadLetter]:
        """Return up to ``n`` dead letters of a queue, oldest first, without removing them.

        Args:
            qname: the queue.
            n: how many. One round trip reads at most 100, or fewer if they are long.
            after: only those after this `RSMQDeadLetter.entry`, to page through many. Defaults to
                None, from the first.

        Raises:
            ConfigurationError: ``after`` is not an entry.
        """
        return self._run(operations.dead_letters(self._spec, qname, n, after))

    def drop_dead_letters(self, qname: str, *entries: str) -> int:
        """Delete dead letters for good by `RSMQDeadLetter.entry`, and return how many.

        Cost: one round trip per 50.

        Raises:
            ConfigurationError: that is not an entry.
        """
        return self._run(operations.drop_dead_letters(self._spec, qname, entries))

    def redrive(self, qname: str, n: int | None = None, *, entries: Iterable[str] = ()) -> int:
        """Make dead letters visible again with ``rc`` at zero, and return how many.

        Args:
            qname: the queue.
            n: how many, oldest first. Defaults to all that are dead now.
            entries: only these, by `RSMQDeadLetter.entry`.

        Raises:
            ConfigurationError: that is not an entry.
            QueueNotFound: there is no such queue.
            UnknownOutcome: the reply was lost. Up to 16 more messages may be visible again.
        """
        return self._run(operations.redrive(self._spec, qname, n, tuple(entries)))
