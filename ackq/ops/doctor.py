"""`Doctor`: examine a server before you trust it with messages."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

import redis

from ackq.config import PopFrom, QueueConfig
from ackq.core.client import Client
from ackq.core.io.outside import SYSTEM
from ackq.ops.acl import SCRATCH
from ackq.ops.diagnosis import Diagnosis, judge
from ackq.ops.facts import Facts, read_clock, read_facts
from ackq.ops.trials import try_out, untried
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec


class Doctor(Client):
    """Examine one server, and try every operation on a queue of its own there."""

    def __init__(
        self, client: redis.Redis, scratch: str | None = None, pop_from: PopFrom = "right"
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server.
            scratch: name of the queue to try operations on. No one else may use it, and all of
                it is deleted. Defaults to a new name for each doctor, beginning with `SCRATCH`.
            pop_from: the end of the list from which the queue is popped, "right" or "left". Choose
                the end of your queues: users of the left end may have no permissions for the
                right one. Defaults to "right".
        """
        scratch = scratch or SCRATCH + secrets.token_hex(8)
        super().__init__(client, scratch)
        config = QueueConfig(pop_from=pop_from)
        keys = QueueKeys.of(scratch, pop_from)
        self._spec = QueueSpec(scratch, keys, config, self._block_limit, outside=SYSTEM)

    @property
    def address(self) -> str:
        """The address of the server that is examined."""
        return self._driver.route.address

    def examine(self) -> Diagnosis:
        """Examine the server and try what the user may do. About 40 round trips.

        This also works on servers that ackq does not support, and for users with few permissions.
        """
        facts = self._with_clock(self._driver.run(read_facts()))
        # If the server is not writable, do not try: calls would wait for a failover to end.
        tried = self._driver.run(try_out(self._spec)) if facts.writable else untried()
        return judge(facts, tried)

    def _with_clock(self, facts: Facts) -> Facts:
        before = time.time()
        server = self._driver.run(read_clock())
        after = time.time()
        if server is None:
            return facts
        middle, half = (before + after) / 2, (after - before) / 2
        return replace(facts, clock_ahead=server - middle, clock_uncertainty=half)
