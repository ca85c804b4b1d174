# Written by tools/blocking.py: edit shards_async.py instead, then run make clients.
"""The shards of a queue as they are recorded, and a consumer's part in them, blocking."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from ackq.config import Seconds
from ackq.core.io.outside import SYSTEM
from ackq.core.io.together import Prepared, run_all
from ackq.errors import KeyTypeError, LeaseLost
from ackq.membership.client import ConsumerGroup
from ackq.membership.shards import Shards
from ackq.queue import take
from ackq.queue.client import Queue
from ackq.queue.messages import Message
from ackq.sharded import operations, resize
from ackq.sharded.choice import Choice
from ackq.sharded.waiters import ShardWaiters

#: Seconds between two tries to close draining shards, and while new ones wait for that.
RETIRE_INTERVAL, HELD_INTERVAL = 0.5, 0.1


class ShardSet:
    """The queues of the shards. Shards are named by their places in ``queues``."""

    def __init__(
        self,
        recorded: Shards,
        queues: Sequence[Queue],
        draining: Sequence[Queue],
        members: ConsumerGroup,
    ) -> None:
        self.recorded = recorded
        #: The shards in use, then those that are draining.
        self.queues = (*queues, *draining)
        self.used, self.draining = tuple(queues), tuple(draining)
        self._retiring = time.monotonic() + RETIRE_INTERVAL
        #: With groups, the new shards that may have to wait for former ones.
        self._held: set[int] = set()
        if recorded.groups and draining:
            self._held, self._retiring = set(range(len(queues))), 0.0
        self.members = members
        self._waiters = ShardWaiters(self.queues)
        self._choice = Choice(SYSTEM.jitter())

    def take(
        self,
        n: int,
        visibility_timeout: Seconds | None,
        acked: dict[Queue, list[Message]],
    ) -> list[Message] | None:
        """Take from the shard that is next; meanwhile ack messages, and forget them.

        Returns:
            None if all shards that this consumer looked at are empty.
        """
        shard = self._choice.shard(time.monotonic())
        if shard is None:
            shard = self._fullest(acked)
        if shard is None:
            return None
        queue = self.queues[shard]
        own = acked.pop(queue, ())
        if acked or shard >= len(self.used):
            # Another consumer may just have closed a draining shard.
            taking = queue.beginning(take.pop_many, n, None, visibility_timeout, own)
            tolerates = KeyTypeError if shard >= len(self.used) else LeaseLost
            first = (run([taking, *acks(acked)], tolerates))[0]
            taken: list[Message] = first if isinstance(first, list) else []
        else:
            taken = queue.pop_many(n, None, visibility_timeout, own)
        self._choice.took(shard, len(taken), n)
        return taken

    def wait(self, timeout: float) -> None:
        """Wait until one of this consumer's shards gets a message, or a time has passed."""
        limit = min(timeout, operations.MAX_BLOCK)
        partitions = self._served(self.members.partitions)
        for shard in self._waiters.wait(partitions, limit):
            self._choice.woken(shard)

    def close(self) -> None:
        """Leave the consumers, and end all waits."""
        self.members.close()
        self._waiters.close()

    def _fullest(self, acked: dict[Queue, list[Message]]) -> int | None:
        """Count the messages of this consumer's shards; if there are none, of others.

        Meanwhile ack messages, and forget them.

        Returns:
            The fullest shard; None if no shard that was looked at has messages.
        """
        assignment = self.members.join()
        owned = assignment.partitions
        # A wait that goes on has found nothing yet.
        unknown = [each for each in self._served(owned) if not self._waiters.waits_on(each)]
        unknown += self._choice.drained(len(self.used), len(self.queues))
        counts = self._count(unknown, acks(acked))
        self._waiters.seen(counts)
        shard = self._choice.counted(counts, time.monotonic())
        if shard is not None:
            return shard
        others = self._choice.others(
            owned, self.recorded.number, assignment.members, time.monotonic()
        )
        if not (helped := self._served(others)):
            return None
        shard = self._choice.counted(self._count(helped), time.monotonic())
        if shard is not None:
            self._choice.helps()
        return shard

    def _served(self, shards: Sequence[int]) -> tuple[int, ...]:
        """Return those of the shards in use that wait for no former one."""
        return tuple(shard for shard in shards if shard not in self._held)

    def _count(
        self, shards: Sequence[int], besides: Sequence[Prepared[Any]] = ()
    ) -> dict[int, operations.ShardCounts]:
        """Count the messages of shards; meanwhile run other operations."""
        counting = [self.queues[number].beginning(operations.shard_counts) for number in shards]
        results = run([*besides, *counting], tolerates=KeyTypeError if self.draining else LeaseLost)
        counts = dict(zip(shards, results[len(besides) :], strict=True))
        for shard, count in counts.items():
            if isinstance(count, KeyTypeError) and shard < len(self.used):
                raise count
        return {
            shard: count
            for shard, count in counts.items()
            if isinstance(count, operations.ShardCounts)
        }

    def retire(self) -> bool:
        """Close draining shards that are empty, now and then; return whether all are closed."""
        if not self.draining or time.monotonic() < self._retiring:
            return False
        if self.recorded.groups:
            return self.advance()
        self._retiring = time.monotonic() + RETIRE_INTERVAL
        version = self.recorded.version
        closing = [shard.beginning(resize.retire, version) for shard in self.draining]
        return all(retired is True for retired in run_all(closing))

    def switch(self) -> bool:
        """Close the former shards of a queue with groups to producers, then open the new ones.

        Returns:
            Whether both is done. This user may not be allowed to.
        """
        version = self.recorded.version
        closing = [shard.beginning(resize.close, version) for shard in self.draining]
        if not all(closed is True for closed in run(closing, ResponseError)):
            return False
        changed = self.recorded.changed
        opening = [shard.beginning(resize.revive, version, changed) for shard in self.used]
        opened = run(opening, ResponseError)
        return not any(isinstance(each, Exception) for each in opened)

    def advance(self) -> bool:
        """Go on with the change of the number of shards of a queue with groups.

        A new shard is released once all former ones that may have had messages of its groups are
        sealed: nothing can be pushed to these any more, and they have nothing to deliver.

        Returns:
            Whether the change is over: the former shards have nothing, and the new ones wait no
            longer.
        """
        sealed: list[Any] = []
        # A failover may have undone the closing.
        if self.switch():
            sealed = run_all([shard.beginning(resize.seal) for shard in self.draining])
            number, former = self.recorded.number, len(self.draining)
            free = [
                shard
                for shard in self._held
                if all(sealed[each] in (1, 2) for each in resize.parents(shard, number, former))
            ]
            releasing = [
                self.used[shard].beginning(resize.release, self.recorded.version) for shard in free
            ]
            released = run(releasing, ResponseError)
            self._held -= {
                shard
                for shard, each in zip(free, released, strict=True)
                if not isinstance(each, Exception)
            }
        interval = HELD_INTERVAL if self._held else RETIRE_INTERVAL
        self._retiring = time.monotonic() + interval
        return bool(sealed) and not self._held and all(each == 1 for each in sealed)


def acks(acked: dict[Queue, list[Message]]) -> list[Prepared[Any]]:
    """Return the acks of messages by queue, and forget them."""
    prepared = [queue.beginning(operations.ack, messages) for queue, messages in acked.items()]
    acked.clear()
    return prepared


def run(prepared: Sequence[Prepared[Any]], tolerates: type[Exception] = LeaseLost) -> list[Any]:
    """Run operations of several shards together.

    Args:
        prepared: the operations.
        tolerates: errors that stay among the results, as lost leases do.

    Raises:
        Exception: the first other error among the results.
    """
    if not prepared:
        return []
    results = run_all(prepared)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, (LeaseLost, tolerates)):
            raise result
    return results
