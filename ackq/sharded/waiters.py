"""Wait for work on several shards at once, with a thread for each."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
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
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._threads = ThreadPoolExecutor(len(self._queues), thread_name_prefix="ackq-shard")
        self._waiting: dict[int, Future[None]] = {}

    def wait(self, shards: Sequence[int], timeout: float) -> None:
        """Return when one of ``shards`` may have a message, or after ``timeout`` seconds."""
        if not shards:
            time.sleep(min(timeout, IDLE_POLL))
            return
        if len(shards) == 1:
            self._wait(shards[0], timeout)
            return
        if self._pid != os.getpid():
            self._begin()
        futures = {}
        for shard in shards:
            future = self._waiting.get(shard)
            if future is None or future.done():
                future = self._threads.submit(self._wait, shard, operations.BLOCK_LIMIT)
                self._waiting[shard] = future
            futures[future] = shard
        done, _ = wait_for(futures, timeout, FIRST_COMPLETED)
        for future in done:
            future.result()

    def close(self) -> None:
        """Wait until all running waits have ended, within a second."""
        if self._pid == os.getpid():
            self._threads.shutdown(cancel_futures=True)

    def _wait(self, shard: int, timeout: float) -> None:
        queue = self._queues[shard]
        queue.execute(operations.wait, timeout)
