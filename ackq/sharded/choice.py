"""Which shard a consumer takes from next, by what it knows of their backlogs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ackq.sharded.operations import ShardCounts

#: Most takes in a row from one shard while others have messages.
TAKES_IN_A_ROW = 8
#: Seconds for which counts are good enough to choose by.
COUNTS_LAST = 0.25
#: Seconds between two looks at the shards of others that found nothing.
HELP_INTERVAL = 0.25
#: Most shards of others that one look reads.
MAX_OTHERS = 16
#: Most such looks per second at one shard, of all consumers together, so that thousands of
#: consumers cost a shard no more than a few do.
LOOK_RATE = 50


class Choice:
    """The counts of a consumer's last look at the shards, and the shard it takes from.

    The threads of a consumer share it. A race between them costs a take that finds nothing.
    """

    def __init__(self, first: int) -> None:
        """Begin without counts.

        Args:
            first: the shard of others at which to look first, by remainder; a random number.
        """
        self._current: int | None = None
        self._takes = 0
        self._ready: dict[int, int] = {}
        self._counted = self._looked_elsewhere = -1e9
        self._others = itertools.count(first)

    def shard(self, now: float) -> int | None:
        """Return the shard to take from; None if a look at the shards has to come first.

        It stays the same for some takes, since acks of messages of one shard cost no round trip
        of their own. Then the next one with messages follows, however few it has.

        Args:
            now: seconds of a monotonic clock.
        """
        current = self._current
        if current is not None and self._takes < TAKES_IN_A_ROW:
            return current
        if now - self._counted > COUNTS_LAST:
            return None
        after = -1 if current is None else current
        full = sorted(shard for shard, ready in list(self._ready.items()) if ready > 0)
        if not full:
            return None
        return self._go_to(next((shard for shard in full if shard > after), full[0]))

    def took(self, shard: int, messages: int, wanted: int) -> None:
        """Note a take of ``messages`` of ``wanted`` from ``shard``."""
        self._takes += 1
        left = self._ready.get(shard, 0) - messages if messages else 0
        self._ready[shard] = left
        if left <= 0 or messages < wanted:
            self._current = None

    def counted(self, counts: Mapping[int, ShardCounts], now: float) -> int | None:
        """Note what a look found, and return the fullest shard; None if all are empty."""
        self._ready = {shard: 0 if count.paused else count.ready for shard, count in counts.items()}
        self._counted = now
        fullest = max(self._ready, key=self._ready.__getitem__, default=None)
        if fullest is None or not self._ready[fullest]:
            self._current = None
            return None
        return self._go_to(fullest)

    def others(self, owned: Sequence[int], shards: int, consumers: int, now: float) -> list[int]:
        """Return the shards of others to look at now. Call it if this consumer's are empty."""
        read = min(MAX_OTHERS, shards - len(owned))
        if now - self._looked_elsewhere < max(
            HELP_INTERVAL, consumers * read / (shards * LOOK_RATE)
        ):
            return []
        self._looked_elsewhere = now
        others = sorted(set(range(shards)).difference(owned))
        if len(others) > MAX_OTHERS:
            first = next(self._others) * MAX_OTHERS % len(others)
            others = (others + others)[first : first + MAX_OTHERS]
        return others

    def drained(self, used: int, shards: int) -> list[int]:
        """Return the draining shards to look at besides this consumer's: those from ``used`` on."""
        draining = list(range(used, shards))
        if len(draining) > MAX_OTHERS:
            first = next(self._others) * MAX_OTHERS % len(draining)
            draining = (draining + draining)[first : first + MAX_OTHERS]
        return draining

    def helps(self) -> None:
        """Note that a look at the shards of others found messages: the next one may be soon."""
        self._looked_elsewhere = -1e9

    def woken(self, shard: int) -> None:
        """Note that ``shard`` has just got a message."""
        self._ready[shard] = 1
        self._go_to(shard)

    def _go_to(self, shard: int) -> int:
        self._current, self._takes = shard, 0
        return shard
