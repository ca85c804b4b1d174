"""Consumers finish commits whose driver died before all rows had arrived."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import suppress

from redis.exceptions import RedisError

from ackq.core.effects import Clock, Operation
from ackq.errors import EXPECTED, PublishContention
from ackq.staging.keys import StagingKeys, has_settings
from ackq.staging.operations import Mover, committed_lists

#: Seconds between two checks, and longest time to move rows before the next take.
CHECK_INTERVAL = 1.0

_LOG = logging.getLogger("ackq.staging")


class UnfinishedCommits:
    """Finishes unfinished commits of a topic or delay queue, for one consumer.

    Threads share it without a lock: an unnecessary check only costs a round trip.
    """

    def __init__(self, name: str) -> None:
        self.keys = StagingKeys.of_topic(name)
        self._next_check = -math.inf

    def move_in(self, move: Mover) -> Operation[None]:
        """Check for unfinished commits once a second, with one command, and move in their rows.

        Errors are logged, not raised: the take that follows reports its own. Rows that cannot be
        moved stay where they are. After a second of moving, the next call continues.
        """
        now = yield Clock()
        if now < self._next_check:
            return
        # The next check is due when this one stops moving, and continues with the rest.
        until = self._next_check = now + CHECK_INTERVAL
        names: Sequence[bytes] = ()
        # Without permission to read the key, or if it has another type, there is nothing to move.
        with suppress(RedisError, OSError):
            names = yield committed_lists(self.keys)
        try:
            for name in filter(has_settings, names):
                left = True
                while left:
                    left = yield from move(name)
                    if (yield Clock()) >= until:
                        return
        except PublishContention:
            pass  # other consumers are moving them
        except EXPECTED as error:
            # Stop here, so that later rows do not overtake these.
            _LOG.warning(
                "committed rows of %s could not be moved in yet: %s", self.keys.held.decode(), error
            )
