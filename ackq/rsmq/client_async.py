"""`AsyncRSMQ`: queues that the JavaScript original and its ports share, on asyncio."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import redis.asyncio

from ackq.config import check_integer
from ackq.core.client_async import Client, client_of
from ackq.rsmq import operations
from ackq.rsmq.values import (
    DEFAULT_DELAY,
    DEFAULT_MAXSIZE,
    DEFAULT_VT,
    QueueAttributes,
    RSMQDeadLetter,
    RSMQMessage,
    RSMQSpec,
    check_namespace,
)


class AsyncRSMQ(Client):
    """The queues of one RSMQ namespace, shared with any other RSMQ client on the same keys.

    Guarantee: at least once by `receive_message` and `delete_message`: a message is hidden for
    ``vt`` seconds once received, and visible again unless it was deleted; `pop_message` is at
    most once. As everywhere in RSMQ a delete is not fenced: a late one deletes a message that
    another consumer holds now. The time is the server's. One round trip an operation.

    For the tasks of one event loop.
    It opens connections of its own, with the client's settings; close it, or use it as
    an async context manager.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
        ns: str = "rsmq",
        *,
        realtime: bool = False,
        max_receives: int | None = None,
    ) -> None:
        """Prepare namespace ``ns``; nothing is sent before the first operation.

        Args:
            client: any redis-py client: standalone, Sentinel's `master_for`, or cluster. Its
                address, credentials, TLS and timeouts are used, its connections are not.
            ns: the namespace; in a cluster it needs a hash tag: ``{rsmq}``. Defaults to "rsmq".
            realtime: publish a notice of each message that is sent, as the original does:
                the number of messages, on ``{ns}:rt:{qname}``. Defaults to False.
            max_receives: receives after which this client puts a message among the dead
                letters instead of returning it. Others know nothing of it, and go on receiving
                such a message. Defaults to None, no limit.

        Raises:
            QueueNameError: the namespace cannot be used.
            ConfigurationError: ``max_receives`` is not 1 to 1,000,000.
        """
        check_namespace(ns)
        if max_receives is not None:
            check_integer(max_receives, "max_receives", 1, 1_000_000)
        super().__init__(client, ns)
        self._spec = RSMQSpec(ns, bool(realtime), max_receives or 0, self._block_limit)

    @classmethod
    def from_url(cls, url: str | None, ns: str = "rsmq", **settings: Any) -> Self:
        """Return namespace ``ns`` on the server at ``url``, with the settings of `RSMQ`.

        Args:
            url: as in `redis.Redis.from_url`; None starts, or finds, the embedded server.
            ns: the namespace. Defaults to "rsmq".
            settings: the keyword arguments of `RSMQ`.

        Raises:
            ConfigurationError: the URL cannot be read; the error does not show its password.
            ServerNotFound: no URL, and no redis-server is at hand.
        """
        return cls(client_of(url), ns, **settings)

    @property
    def ns(self) -> str:
        """The namespace."""
        return self._spec.ns

    async def create_queue(
        self,
        qname: str,
        vt: int = DEFAULT_VT,
        delay: int = DEFAULT_DELAY,
        maxsize: int = DEFAULT_MAXSIZE,
    ) -> None:
        """Create a queue and list it, both or neither.

        Args:
            qname: 1 to 160 letters, digits, ``_`` or ``-``.
            vt: seconds that a received message is hidden, 0 to 9999999. Defaults to 30.
            delay: seconds before a sent message is visible, 0 to 9999999. Defaults to 0.
            maxsize: longest message in UTF-16 units, 1024 to 65536, or -1: no limit. Defaults
                to 65536.

        Raises:
            QueueExists: it does, and keeps its attributes; if it was not listed, it is now.
            MissingParameter: ``qname`` is empty.
            InvalidFormat: ``qname`` cannot be a name.
            InvalidValue: a number is out of range.
            UnknownOutcome: the reply was lost; created or not.
        """
        await self._run(operations.create_queue(self._spec, qname, vt, delay, maxsize))

    async def list_queues(self) -> list[str]:
        """Return the names of the namespace's queues, sorted."""
        return await self._run(operations.list_queues(self._spec))

    async def delete_queue(self, qname: str) -> None:
        """Delete a queue with all its messages, dead letters too. They are lost.

        Raises:
            QueueNotFound: there is none.
            UnknownOutcome: the reply was lost; deleted or not.
        """
        await self._run(operations.delete_queue(self._spec, qname))

    async def get_queue_attributes(self, qname: str) -> QueueAttributes:
        """Return a queue's settings and counts, all of one instant.

        Raises:
            QueueNotFound: there is none.
        """
        return await self._run(operations.attributes(self._spec, qname))

    async def set_queue_attributes(
        self,
        qname: str,
        vt: int | None = None,
        delay: int | None = None,
        maxsize: int | None = None,
    ) -> QueueAttributes:
        """Change the settings that are given, and return all attributes as they are then.

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
        return await self._run(operations.attributes(self._spec, qname, changes))

    async def send_message(self, qname: str, message: str | bytes, delay: int | None = None) -> str:
        """Store one message and return its id.

        Args:
            qname: the queue.
            message: text, or bytes that are stored as they are.
            delay: seconds until it is visible, 0 to 9999999. Defaults to the queue's.

        Raises:
            QueueNotFound: there is no such queue.
            MessageNotString: another type.
            MessageTooLong: over the queue's maxsize.
            InvalidValue: ``delay`` is out of range.
            UnknownOutcome: the reply was lost; stored or not.
        """
        return await self._run(operations.send_message(self._spec, qname, message, delay))

    async def send_messages(
        self, qname: str, messages: Iterable[str | bytes], delay: int | None = None
    ) -> list[str]:
        """Store many messages and return their ids; the first is received first.

        One round trip per 1,000 messages or 1 MiB, or 128 KiB of messages with other characters
        than ASCII that are longer than 1 KiB. Each such chunk is stored whole or not at all.

        Args:
            qname: the queue.
            messages: as in `send_message`.
            delay: as in `send_message`, for all of them.

        Raises:
            QueueNotFound: as in `send_message`.
            MessageNotString: as in `send_message`; nothing was sent.
            MessageTooLong: as in `send_message`; a note says how many earlier ones are stored.
            InvalidValue: as in `send_message`.
            UnknownOutcome: as in `send_message`; its ``stored`` counts those that surely are.
        """
        return await self._run(operations.send_messages(self._spec, qname, messages, delay))

    async def receive_message(
        self, qname: str, vt: int | None = None, timeout: float | None = None
    ) -> RSMQMessage | None:
        """Take the next visible message and hide it for ``vt``; None if there is none in time.

        See `receive_messages`.
        """
        found = await self._run(operations.receive_messages(self._spec, qname, 1, vt, timeout))
        return found[0] if found else None

    async def receive_messages(
        self, qname: str, n: int, vt: int | None = None, timeout: float | None = None
    ) -> list[RSMQMessage]:
        """Take up to ``n`` visible messages and hide each for ``vt`` seconds.

        Guarantee: nobody else receives them until then; what was not deleted by then is visible
        again. A wait is ended at once by what ackq sends, and within a second by what others do.

        Args:
            qname: the queue.
            n: how many at most; a call takes 1,000 or 1 MiB, and never another message along
                with one on its last permitted receive.
            vt: seconds, 0 to 9999999. Defaults to the queue's.
            timeout: seconds to wait for the first one; None: do not wait; ``math.inf``: for ever.

        Returns:
            0..n messages, oldest first; fewer than ``n`` does not mean that no more are visible.

        Raises:
            QueueNotFound: there is no such queue.
            InvalidValue: ``vt`` is out of range, or the queue's own cannot be read.
            UnknownOutcome: the reply was lost; what was taken is visible again after ``vt``.
        """
        return await self._run(operations.receive_messages(self._spec, qname, n, vt, timeout))

    async def pop_message(self, qname: str, timeout: float | None = None) -> RSMQMessage | None:
        """Take the next visible message and delete it; None if there is none in time.

        AT MOST ONCE: a message is lost if its consumer dies, or if the reply is lost.

        Args:
            qname: the queue.
            timeout: as in `receive_messages`.

        Raises:
            QueueNotFound: there is no such queue.
            UnknownOutcome: the reply was lost, and with it the message if there was one.
        """
        found = await self._run(
            operations.receive_messages(self._spec, qname, 1, None, timeout, "remove")
        )
        return found[0] if found else None

    async def delete_message(self, qname: str, id: str) -> bool:
        """Delete a message, and return whether it was there.

        NOT FENCED, as in RSMQ: it is deleted even if another consumer holds it now. The call is
        sent again if its reply is lost, and then may return False for what it deleted itself.

        Raises:
            MissingParameter: an argument is empty.
            InvalidFormat: ``id`` is not 32 letters, digits or colons.
        """
        return (await self._run(operations.delete_messages(self._spec, qname, (id,)))) == 1

    async def delete_messages(self, qname: str, ids: Iterable[str]) -> int:
        """Delete many messages, and return how many were there; see `delete_message`.

        One round trip per 1,000.
        """
        return await self._run(operations.delete_messages(self._spec, qname, ids))

    async def change_message_visibility(self, qname: str, id: str, vt: int) -> bool:
        """Make a message visible ``vt`` seconds from now, and return whether it is there.

        Args:
            qname: the queue.
            id: of the message.
            vt: seconds from now, 0 to 9999999.

        Raises:
            QueueNotFound: there is no such queue.
            InvalidFormat: ``id`` is not 32 letters, digits or colons.
            InvalidValue: ``vt`` is out of range.
        """
        return await self._run(operations.change_message_visibility(self._spec, qname, id, vt))

    async def dead_letters(self, qname: str, n: int = 100) -> list[RSMQDeadLetter]:
        """Read up to ``n`` dead letters of a queue, oldest first. They stay."""
        return await self._run(operations.dead_letters(self._spec, qname, n))

    async def redrive(self, qname: str, n: int | None = None) -> int:
        """Make dead letters visible again, their ``rc`` at zero, and return how many.

        Args:
            qname: the queue.
            n: how many, oldest first. Defaults to all that are dead now.

        Raises:
            QueueNotFound: there is no such queue.
            UnknownOutcome: the reply was lost; up to 16 more may be visible again.
        """
        return await self._run(operations.redrive(self._spec, qname, n))
