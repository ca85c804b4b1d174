"""Sends the heartbeats of a member of a consumer group, in a task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ackq.membership.operations import Session


class Heartbeats:
    """Sends heartbeats of one session from `start` to `stop`. It is used once."""

    def __init__(self, session: Session, send: Callable[[Session], Awaitable[None]]) -> None:
        self._session, self._send = session, send
        self._task: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._task is not None

    def start(self, name: str) -> None:
        """Start the task, unless it was started before."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=name)

    async def stop(self) -> None:
        """Cancel the task, and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._session.next_heartbeat)
            await self._send(self._session)
