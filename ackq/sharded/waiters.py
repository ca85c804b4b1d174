"""Wait for work on several shards at once, with a thread for each."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for

from ackq.queue.client import Queue
from ackq.sharded import operations

#: Seconds between two checks of a consumer that serves no shard.
IDLE_POLL = 0.1


class ShardWaiters:
    """Waits that may outlast their call: a message that they find stays at its queue's front."""

    def __init__(self, queues: Sequence[Queue]) -> None:
        self._queues = queues
        self._counts: dict[int, operations.ShardCounts] = {}
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._threads = ThreadPoolExecutor(len(self._queues), thread_name_prefix="ackq-shard")
        self._waiting: dict[int, Future[bool]] = {}
        #: The waits that began with an empty shard that was not paused.
        self._blocked: dict[int, Future[bool]] = {}

    def waits_on(self, shard: int) -> bool:
        """Return whether a wait on ``shard`` goes on: it has had no message since it began."""
        future = self._blocked.get(shard)
        return self._pid == os.getpid() and future is not None and not future.done()

    def seen(self, counts: Mapping[int, operations.ShardCounts]) -> None:
        """Note what shards have just had; the next wait does not ask again."""
        self._counts = dict(counts)

    def wait(self, shards: Sequence[int], timeout: float) -> list[int]:
        """Return those of ``shards`` that got a message; none after ``timeout`` seconds."""
        if not shards:
            time.sleep(min(timeout, IDLE_POLL))
            return []
        if len(shards) == 1:
            counts = self._counts.pop(shards[0], None)
            return list(shards) if self._wait(shards[0], timeout, counts) else []
        if self._pid != os.getpid():
            self._begin()
        futures = {}
        for shard in shards:
            future = self._waiting.get(shard)
            if future is None or future.done():
                counts = self._counts.pop(shard, None)
                future = self._threads.submit(self._wait, shard, operations.MAX_BLOCK, counts)
                self._waiting[shard] = future
                self._blocked.pop(shard, None)
                if counts and not counts.paused:
                    self._blocked[shard] = future
            futures[future] = shard
        done, _ = wait_for(futures, timeout, FIRST_COMPLETED)
        return [futures[future] for future in done if future.result()]

    def close(self) -> None:
        """Wait until all running waits have ended, within a second."""
        if self._pid == os.getpid():
            self._threads.shutdown(cancel_futures=True)

    def _wait(self, shard: int, timeout: float, counts: operations.ShardCounts | None) -> bool:
        return self._queues[shard].execute(operations.wait, timeout, counts)
