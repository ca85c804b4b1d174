"""`Monitor`: watch the queues of a server or of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import redis
from redis.exceptions import AskError, MovedError, NoPermissionError, TryAgainError

from ackq.core.client import Closable
from ackq.core.io.connections import SingleRoute
from ackq.core.io.driver import Driver
from ackq.core.io.nodes import nodes_of
from ackq.errors import KeyTypeError
from ackq.ops.discovery import QueueCounts, ask_server, read_counts, scan


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts of queues and servers at one time, by the first server's clock.

    A field is None if the user may not ask a server for it.
    """

    at: float | None
    #: Commands that all servers together have processed since they started.
    commands: int | None
    queues: dict[str, QueueCounts]


@dataclass(slots=True)
class _Node:
    """A server, with the progress of the search on it."""

    driver: Driver
    found: set[str] = field(default_factory=set)
    cursor: bytes = b"0"


class Monitor(Closable):
    """Find the queues of one server, or of all primaries of its cluster, and read their counts.

    This changes nothing, except that consumers count what they do: see `ackq.Queue.counters`.
    """

    def __init__(
        self,
        client: redis.Redis,
        named: Sequence[str] = (),
        steps: int = 10,
        window: float | None = None,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of any node of the cluster.
            named: the queues to watch. If empty, all queues that have side keys.
            steps: SCAN calls per `sample` on each server, of 1,000 keys each. Defaults to 10.
            window: let consumers count what they do, for this many seconds after each `sample`,
                0.001 to 604800. Defaults to None: no counts.
        """
        self._client = client
        self._named = {name: Driver(SingleRoute(client)) for name in named}
        self._steps = steps
        self._window = window
        self._nodes: list[_Node] = []

    def sample(self) -> Sample:
        """Read all counts, and continue the search for queues. 1 or 2 round trips per queue.

        Raises:
            KeyTypeError: a key of a named queue is not a queue's. Unnamed ones are skipped.
        """
        try:
            return self._sample()
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            # The cluster may have other primaries at the next call.
            self.close()
            raise

    def _sample(self) -> Sample:
        if not self._nodes:
            # Do not follow redirections: a queue on another node is found there.
            self._nodes = [
                _Node(Driver(SingleRoute(each, follow=False))) for each in nodes_of(self._client)
            ]
        queues = {name: driver.run(read_counts(name, self._window))
                  for name, driver in self._named.items()}  # fmt: skip
        for node in self._nodes if not self._named else ():
            self._search(node)
            queues |= self._count(node)
        servers = [node.driver.run(ask_server()) for node in self._nodes]
        commands = [each.commands for each in servers if each.commands is not None]
        known = len(commands) == len(servers)
        return Sample(servers[0].at, sum(commands) if known else None, queues)

    def _search(self, node: _Node) -> None:
        for _ in range(self._steps):
            node.cursor, found = node.driver.run(scan(node.cursor))
            node.found |= found
            if node.cursor == b"0":
                return

    def _count(self, node: _Node) -> dict[str, QueueCounts]:
        queues = {}
        for name in sorted(node.found):
            try:
                queues[name] = node.driver.run(read_counts(name, self._window))
            except (KeyTypeError, NoPermissionError, MovedError):
                node.found.discard(name)
            except (AskError, TryAgainError):
                continue  # its slot is being moved; a later sample finds it
        return queues

    def close(self) -> None:
        """Close the connections."""
        for driver in (*self._named.values(), *(node.driver for node in self._nodes)):
            driver.route.close()
        self._nodes = []
