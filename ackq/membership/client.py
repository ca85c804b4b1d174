# Written by tools/blocking.py: edit client_async.py instead, then run make clients.
"""`ConsumerGroup`: processes that divide numbered partitions among themselves, blocking."""

from __future__ import annotations

import logging
import os
from threading import Lock

import redis

from ackq.config import Seconds
from ackq.core.client import Client
from ackq.core.io.outside import SYSTEM
from ackq.errors import EXPECTED
from ackq.membership import operations
from ackq.membership.heartbeats import Heartbeats
from ackq.membership.operations import Assignment, GroupSpec, Session

_LOG = logging.getLogger("ackq.members")


class ConsumerGroup(Client):
    """One member of the group ``group``, which divides the partitions 0 to ``partitions`` - 1.

    Guarantee: while the membership does not change, each partition has exactly one owner, and the
    numbers of partitions of any two members differ by one at most. When a member joins, leaves or
    is silent for ``session_timeout``, partitions are reassigned; as few as possible move, and all
    members notice within a second. A member that was taken for dead rejoins with a new session.

    A background thread sends heartbeats from `join` to `close`.
    Safe to share between threads, as one member. A forked child is another member.
    """

    _heartbeats: Heartbeats

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        group: str,
        partitions: int,
        *,
        session_timeout: Seconds = 10.0,
    ) -> None:
        """Set up the member. Nothing is sent before `join`.

        Args:
            client: as in `ackq.Queue`.
            group: its keys are ``group:members``, ``group:group`` and ``group:owners``. In a
                cluster it needs a hash tag.
            partitions: how many there are, 1 to 1024; the same for all members.
            session_timeout: seconds of silence after which other members take over, up to 3600.
                Defaults to 10.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range.
        """
        spec = GroupSpec.of(group, partitions, session_timeout)
        super().__init__(client, group)
        self._spec = spec
        self._renew()

    @property
    def session(self) -> Session:
        """This member's session. Its name works as a fencing token."""
        if self._pid != os.getpid():
            self._renew()
        return self._session

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions in the last known assignment; empty before `join`."""
        return self.session.owns()

    def join(self) -> Assignment:
        """Join, unless already joined, and return the assignment. Cost: one or three round trips.

        Raises:
            ConfigurationError: the group has another number of partitions.
        """
        known = self.session.assignment
        if known is not None and self._heartbeats.started:
            return known
        return self.heartbeat()

    def heartbeat(self) -> Assignment:
        """Send a heartbeat, and return the current assignment."""
        session = self.session
        with self._lock:
            assignment = self._run(operations.heartbeat(self._spec, session))
            self._heartbeats.start(f"ackq-{self._key}")
        return assignment

    def leave(self) -> bool:
        """End the session, so that other members take over at once; return whether it was alive."""
        session = self.session
        self._heartbeats.stop()
        with self._lock:
            self._heartbeats = Heartbeats(session, self._keep_alive)
            return self._run(operations.leave(self._spec, session))

    def close(self) -> None:
        """Leave, if the server can be reached, and close the connections."""
        try:
            self.leave()
        except redis.RedisError as error:
            _LOG.warning("group %r: could not leave, the session runs out: %s", self._key, error)
        super().close()

    def _renew(self) -> None:
        """Start as a new member: at first, and in a forked child."""
        self._pid = os.getpid()
        self._lock = Lock()
        self._session = Session(SYSTEM.token(8).hex())
        self._heartbeats = Heartbeats(self._session, self._keep_alive)

    def _keep_alive(self, session: Session) -> None:
        try:
            with self._lock:
                self._run(operations.heartbeat(self._spec, session))
        except EXPECTED as error:
            # The next heartbeat may come in time. If not, this member rejoins.
            _LOG.warning("group %r: a heartbeat failed: %s", self._key, error)
            session.next_heartbeat = self._spec.heartbeat_interval()
