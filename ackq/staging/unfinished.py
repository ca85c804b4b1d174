"""What a consumer does about a commit whose driver died on the way: it goes on with it."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import suppress

from redis.exceptions import RedisError

from ackq.core.effects import Clock, Operation
from ackq.errors import AckqError, PublishContention
from ackq.staging.keys import StagingKeys, tells_how
from ackq.staging.operations import Mover, committed_lists

#: Seconds between two looks, and how long a consumer moves rows before it takes again.
LOOK_EVERY = 1.0

_LOG = logging.getLogger("ackq.staging")


class UnfinishedCommits:
    """Committed rows of a topic or a delay queue that have not arrived, as one consumer sees them.

    Threads share it without a lock: a look too many costs a round trip and nothing else.
    """

    def __init__(self, name: str) -> None:
        self.keys = StagingKeys.of_topic(name)
        self._next_look = -math.inf

    def move_in(self, move: Mover) -> Operation[None]:
        """Look once a second, by one command, and move in what is found.

        It raises no error of Redis: the caller asked for a take, which tells of what it meets.
        Whatever cannot be moved waits. After a second of moving, the next call goes on.
        """
        now = yield Clock()
        if now < self._next_look:
            return
        # Whoever stops moving then is due for the next look, which goes on.
        until = self._next_look = now + LOOK_EVERY
        names: Sequence[bytes] = ()
        # Who may not look, or finds somebody else's key there, has nothing to move.
        with suppress(RedisError, OSError):
            names = yield committed_lists(self.keys)
        try:
            for name in filter(tells_how, names):
                left = True
                while left:
                    left = yield from move(name)
                    if (yield Clock()) >= until:
                        return
        except PublishContention:
            pass  # others are at it
        except (AckqError, RedisError, OSError) as error:
            # Those behind wait too: rows must not overtake each other.
            _LOG.warning("committed rows of %s wait: %s", self.keys.held.decode(), error)
