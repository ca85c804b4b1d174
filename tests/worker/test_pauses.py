"""Every loop of the two runtimes waits in each round, so none keeps a processor busy."""

import asyncio
import inspect
import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio

import ackq
from ackq.worker import AsyncWorker, Worker, tasks, threads
from ackq.worker.effects import Wait
from ackq.worker.policy import Settlement
from tests.worker.by_hand import Time, message_of

#: The rounds of a loop.
ROUNDS = 3


class Waits:
    """Waits for a bell or sleeps, in no time. After some waits, there is nothing left to do."""

    def __init__(self, worker: Any) -> None:
        self.count = 0
        self._worker = worker
        self.bell = SimpleNamespace(wait=self)

    def __call__(self, seconds: float) -> Any:
        assert 0 < seconds <= 1
        self.count += 1
        if self.count == ROUNDS:
            self._worker._state.lanes[0].upkeep.returned.clear()
        return None if isinstance(self._worker, Worker) else _done()


async def _done() -> None:
    """It has waited."""


def work(worker: Any, waits: Waits) -> Any:
    rounds = itertools.count()
    worker._is_over = lambda helpers_run: not worker._state.unsettled() or next(rounds) > ROUNDS
    worker._state.upkeep_bell = waits.bell
    return worker._run_upkeep([])


def shut_down(worker: Any, waits: Waits) -> Any:
    return worker._shut_down([])


def routine(worker: Any, waits: Waits) -> Any:
    drive = threads.drive if isinstance(worker, Worker) else tasks.drive
    return drive(Wait(waits.bell, 1.0) for _ in range(ROUNDS))


@pytest.mark.parametrize("loop", [work, shut_down, routine])
@pytest.mark.parametrize("kind", [Worker, AsyncWorker])
def test_a_loop_waits_in_each_round(kind: Any, loop: Any, monkeypatch: Any) -> None:
    async def run() -> int:
        client: Any = redis.Redis() if kind is Worker else redis.asyncio.Redis()
        queue: Any = ackq.Queue if kind is Worker else ackq.AsyncQueue
        worker = kind(queue(client, "jobs"), print, concurrency=1)
        worker._cancels = True
        worker._state.slots[0].runner = asyncio.ensure_future(_done())
        lane = worker._state.lanes[0]
        lane.upkeep.returned.append((message_of(Time()), Settlement("release")))
        lane.upkeep.not_before = 1e18  # nothing is sent
        waits = Waits(worker)
        monkeypatch.setattr(time, "sleep", waits)
        monkeypatch.setattr(asyncio, "sleep", waits)
        result = loop(worker, waits)
        if inspect.isawaitable(result):
            await result
        monkeypatch.undo()
        return waits.count

    assert asyncio.run(run()) == ROUNDS
