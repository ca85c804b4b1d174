"""Workers of threads and of tasks."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any, ClassVar

from ackq import Message
from ackq.worker import AsyncWorker, Backoff, Hooks, Worker
from tests.histories.log import Log, now
from tests.products import LEASE
from tests.products.bodies import checksum, id_of

from .listed import ListRig
from .rig import Role

#: Seconds that a receipt may lie beyond the end that was asked for.
JITTER = 0.0656
_SETTINGS: dict[str, Any] = {
    "concurrency": 32,
    "max_receives": None,
    "backoff": Backoff(base=0.1, limit=0.2),
    "heartbeat": None,
    "grace": 5,
}


class Deliveries:
    """Logs deliveries of a worker."""

    def __init__(self, log: Log, label: str) -> None:
        self.log = log
        self._label = label

    def begin(self, message: Message) -> int:
        """Log a delivery, and return its token."""
        # The worker took it at some time before, which the end of its lease tells. Read in this
        # order, since this thread may be put off in between: rather too early than too late.
        monotonic = now()
        since = time.time() - monotonic
        taken = message.receipt / 1e6 - LEASE - JITTER - since
        got = [
            id_of(message.body),
            checksum(message.body),
            message.receive_count,
            message.receipt / 1e6,
        ]
        return self.log.took([got], by=self._label, begin=min(taken, monotonic))


class _Handler(Hooks):
    """Logs deliveries, and what the worker is about to do with them."""

    def __init__(self, log: Log, label: str) -> None:
        self._deliveries = Deliveries(log, label)
        self._tokens: dict[int, int] = {}

    def begin(self, message: Message) -> float:
        """Log a delivery; return how long to work on it."""
        self._tokens[id(message)] = self._deliveries.begin(message)
        draw = random.Random(f"{message.id} {message.receive_count}")
        if draw.random() < 0.05:
            return LEASE * draw.uniform(0.7, 2.7)
        return 0.0

    def after(self, message: Message, outcome: str, seconds: float) -> None:
        token = self._tokens.pop(id(message))
        if outcome in ("ack", "nack", "release"):
            # It is settled within 50 ms, unless the process dies.
            self._deliveries.log.begin(outcome, of=[token])


class ThreadWorkerRig(ListRig):
    """`Worker`."""

    rules: ClassVar[dict[str, Any]] = {}

    async def serve(self, role: Role) -> None:
        handler = _Handler(role.log, role.label)

        def handle(message: Message) -> None:
            if seconds := handler.begin(message):
                time.sleep(seconds)
            _fail_at_times(message)

        worker = Worker(self.queue, handle, hooks=handler, **_SETTINGS)
        threading.Thread(target=stop_when_over, args=(role, worker), daemon=True).start()
        worker.run()


class TaskWorkerRig(ListRig):
    """`AsyncWorker`."""

    rules: ClassVar[dict[str, Any]] = {}

    async def serve(self, role: Role) -> None:
        handler = _Handler(role.log, role.label)

        async def handle(message: Message) -> None:
            if seconds := handler.begin(message):
                await asyncio.sleep(seconds)
            _fail_at_times(message)

        worker = AsyncWorker(self.queue, handle, hooks=handler, **_SETTINGS)
        stopping = asyncio.ensure_future(asyncio.to_thread(stop_when_over, role, worker))
        await worker.run()
        await stopping


def stop_when_over(role: Role, worker: Any) -> None:
    """Stop a worker when its role is over; to be run in a thread."""
    while not role.is_over():
        time.sleep(0.02)
    worker.stop()


def _fail_at_times(message: Message) -> None:
    if random.Random(f"fails {message.id}").random() < 0.03 and message.receive_count == 1:
        raise ValueError("fails the first time")
