"""Commands that are passed on: those that delete lists, and those that ackq cannot protect."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import NoPermissionError

from ackq.core.names import has_hash_tag
from ackq.dropin.arguments import Key, name_of
from ackq.dropin.errors import Refused
from ackq.dropin.held_messages_async import Held
from ackq.dropin.unprotected import report, reporting
from ackq.errors import KeyTypeError, PopFromMismatch, QueueNameError
from ackq.queue.keys import QueueKeys

if TYPE_CHECKING:
    _Client = redis.asyncio.Redis
else:
    # At run time the class of the wrapped client comes second: see `wrapper_of`.
    _Client = object


class PassedOn(_Client):
    """Commands that the wrapped client runs, and what ackq does besides."""

    _ackq: Held
    _ackq_encoder: Any

    async def delete(self, *names: Key) -> int:
        """Delete keys, and all that ackq keeps beside a list, dead letters too. One round trip.

        Messages that this client has in flight from the list are not redelivered. Messages that
        another process has in flight are deleted too; its consumer finishes its work. If
        ackq kept anything beside a list, deleting that takes another round trip.
        """
        return await self._delete("delete", names)

    async def unlink(self, *names: Key) -> int:
        """Delete keys as `delete` does; the server frees the memory in the background."""
        return await self._delete("unlink", names)

    async def flushdb(self, *args: Any, **options: Any) -> Any:
        """Delete all keys of the database, and forget what this client has in flight."""
        self._ackq.forget()
        return await super().flushdb(*args, **options)

    async def flushall(self, *args: Any, **options: Any) -> Any:
        """Delete all keys of the server, and forget what this client has in flight."""
        self._ackq.forget()
        return await super().flushall(*args, **options)

    async def select(self, index: int, **options: Any) -> Any:
        """Refuse another database than the client's: ackq has connections of its own.

        Raises:
            Refused: ``index`` is another database.
        """
        pool = getattr(self._ackq.client, "connection_pool", None)
        database = pool.connection_kwargs.get("db") or 0 if pool else index  # clusters have but one
        if int(index) != int(database):
            raise Refused(
                f"this client pops from database {database}, over connections that SELECT does not"
                f" reach. To use database {index}, make a client with db={index}"
            )
        return await super().select(index, **options)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Call the client's own command, and warn once for each list if it takes from one."""
        report(args, self._ackq.reports, self._ackq_encoder)
        return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, *args: Any, **options: Any) -> Any:
        """Return the client's own pipeline, which warns once for each list that it takes from."""
        pipeline = super().pipeline(*args, **options)
        return reporting(pipeline, self._ackq.reports, self._ackq_encoder)

    async def _delete(self, command: str, names: Sequence[Key]) -> int:
        texts = [name_of(name, self._ackq_encoder) for name in names]
        self._ackq.forget(texts)
        beside = {name: keys for name in texts if (keys := self._kept_beside(name))}
        if isinstance(self._ackq.client, RedisCluster) or getattr(self, "connection", None):
            # No pipeline: keys on several nodes, or a connection that may have its own SELECT.
            deleted = await getattr(super(), command)(*names)
            existing = [await self._count(keys) for keys in beside.values()]
        else:
            # Deletions are common, lists in use are rare: looking for them costs no round trip.
            pipeline = self.pipeline(transaction=False)
            getattr(pipeline, command)(*names)
            for keys in beside.values():
                pipeline.exists(*keys)
            deleted, *existing = await pipeline.execute(raise_on_error=False)
            if isinstance(deleted, Exception):
                raise deleted
        for name, exist in zip(beside, existing, strict=True):
            # An ACL may forbid the look: then this user has used no such list.
            if exist and not isinstance(exist, NoPermissionError):
                await self._purge(name)
        return int(deleted)

    async def _count(self, keys: tuple[bytes, ...]) -> int:
        try:
            return int(await super().exists(*keys))
        except NoPermissionError:
            return 0

    async def _purge(self, name: str) -> None:
        # A key of another type is not ackq's, whatever its name.
        with contextlib.suppress(KeyTypeError):
            try:
                await self._ackq.queue(name).purge(dead=True)
            except PopFromMismatch:
                await self._ackq.queue(name, "left").purge(dead=True)

    def _kept_beside(self, name: str) -> tuple[bytes, ...]:
        """Return the keys in which ackq keeps messages beside a list, or none if it cannot."""
        if isinstance(self._ackq.client, RedisCluster) and not has_hash_tag(name):
            return ()
        try:
            keys = QueueKeys.of(name)
        except QueueNameError:
            return ()
        return keys.backup, keys.context, keys.handoff, keys.delayed, keys.dead, keys.record
