"""`Monitor`: watches the queues of a server."""

from __future__ import annotations

from collections.abc import Sequence

import redis

from ackq.protocol.discovery import Sample, sample, scan
from ackq.sync.client import Client


class Monitor(Client):
    """Finds the queues of one server and counts their messages. It changes nothing."""

    def __init__(self, client: redis.Redis, named: Sequence[str] = (), steps: int = 10) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server.
            named: the queues to watch; none: all that have side keys.
            steps: how often one look may SCAN, 1,000 keys each time. Defaults to 10.
        """
        super().__init__(client, named[0] if named else "monitor")
        self._named = tuple(dict.fromkeys(named))
        self._steps = steps
        self._found: set[str] = set()
        self._cursor = b"0"

    def look(self) -> Sample:
        """Count; and go on to search where the last look left off. A round trip a queue."""
        if not self._named:
            self._search()
        counted = self._driver.run(sample(self._named, sorted(self._found)))
        self._found &= counted.queues.keys()
        return counted

    def _search(self) -> None:
        for _ in range(self._steps):
            self._cursor, found = self._driver.run(scan(self._cursor))
            self._found |= found
            if self._cursor == b"0":
                return
