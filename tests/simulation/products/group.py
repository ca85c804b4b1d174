"""One member of a consumer group, as `ackq.membership.client` has one, without its thread."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import redis

from ackq.core.effects import Operation, Sleep
from ackq.core.io.outside import SYSTEM
from ackq.errors import AckqError
from ackq.membership import operations
from ackq.membership.operations import Assignment, GroupSpec, Session
from tests.simulation.steps import Steps

if TYPE_CHECKING:
    from tests.simulation.world import Life

#: Seconds between two looks of a member that has not joined, or waits for a heartbeat to end.
POLL = 0.02


class Member:
    """Sends heartbeats beside the work of its process, from `join` to `leave`."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self.has_joined = False
        self._is_beating = False
        self.session = Session(SYSTEM.token(8).hex())

    def join(self) -> Operation[Assignment]:
        """Join, unless already joined."""
        known = self.session.assignment
        if known is None or not self.has_joined:
            known = yield from operations.heartbeat(self._group, self.session)
            self.has_joined = True
        return known

    def beat(self) -> Life:
        """Send heartbeats."""
        while True:
            yield Sleep(self.session.next_heartbeat if self.has_joined else POLL)
            if self.has_joined:
                yield from self.send()

    def send(self) -> Operation[None]:
        """Send one heartbeat."""
        self._is_beating = True
        try:
            yield from operations.heartbeat(self._group, self.session)
        except (AckqError, redis.RedisError):
            self.session.next_heartbeat = self._group.heartbeat_interval()
        finally:
            self._is_beating = False

    def leave(self) -> Operation[None]:
        """End the session, once no heartbeat is under way."""
        self.has_joined = False
        while self._is_beating:
            yield Sleep(POLL)
        yield from operations.leave(self._group, self.session)


class Group:
    """Takes the place of the consumer group of a client: sends no heartbeats itself."""

    def __init__(self, group: GroupSpec) -> None:
        self.member = Member(group)

    @property
    def session(self) -> Session:
        return self.member.session

    @property
    def partitions(self) -> tuple[int, ...]:
        return self.session.owns()

    async def join(self) -> Assignment:
        joined: Assignment = await Steps(self.member.join())
        return joined

    async def aclose(self) -> None:
        with contextlib.suppress(redis.RedisError):
            await Steps(self.member.leave())
