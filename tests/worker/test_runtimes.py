"""How threads and tasks run a worker's routines, with no server."""

import asyncio
import contextlib
import inspect
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio

import ackq
from ackq.worker import AsyncWorker, Worker, tasks, threads
from ackq.worker.effects import Routine, Wait
from ackq.worker.policy import Settlement
from ackq.worker.slot import Slot
from ackq.worker.state import State
from ackq.worker.tasks import DaemonThreads, TaskBell
from ackq.worker.threads import Gate, ThreadBell, _finish
from tests.waiting import wait_until

AWAY = redis.ConnectionError("gone")


class Bug(Exception):
    """Raised by what a test planted."""


def _message(id: str = "a") -> ackq.Message:
    return ackq.Message("jobs", id.encode(), b"{}", 1, 1)


@contextlib.contextmanager
def _worker(**settings: Any) -> Iterator[Worker]:
    """Yield a worker whose queue sends nothing."""
    with ackq.Queue(redis.Redis(), "jobs") as queue:
        worker = Worker(queue, settings.pop("handler", print), **settings)
        worker._gate = Gate(worker._state)
        yield worker


@contextlib.asynccontextmanager
async def _async_worker(**settings: Any) -> AsyncIterator[AsyncWorker]:
    async with ackq.AsyncQueue(redis.asyncio.Redis(), "jobs") as queue:
        yield AsyncWorker(queue, settings.pop("handler", print), **settings)


def _run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def _on_both(check: Callable[[Any], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a check of a worker with threads, and of one with tasks."""

    async def main() -> None:
        with _worker(**settings) as worker:
            await check(worker)
        async with _async_worker(**settings) as async_worker:
            await check(async_worker)

    asyncio.run(main())


async def _done(result: Any) -> None:
    """Await what only one of the two gives to await."""
    if inspect.isawaitable(result):
        await result


class Started:
    """A service with these routines, instead of a worker's own."""

    ordered_to_stop = False

    def __init__(self, make: Callable[[State, Callable[[], Any]], list[Routine[None]]]) -> None:
        self._make = make

    def start(self, state: State, bell: Callable[[], Any]) -> list[Routine[None]]:
        self._state = state
        return self._make(state, bell)

    def end(self) -> None:
        self._state.stop()


def _doing(worker: Any, sources: list[Routine[None]], presence: Sequence[Routine[None]]) -> None:
    """Let a worker run these routines instead of its own."""
    worker._sources = (Started(lambda state, bell: sources),)
    worker._reports = (Started(lambda state, bell: list(presence)),)


# --- effects ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ThreadBell, TaskBell])
def test_a_ring_is_kept_for_one_wait(kind: Any) -> None:
    async def main() -> None:
        bell = kind()
        bell.ring()
        began = time.monotonic()
        await _done(bell.wait(30))
        assert time.monotonic() - began < 20
        began = time.monotonic()
        await _done(bell.wait(0.02))
        assert time.monotonic() - began >= 0.015

    _run(main)


# --- helpers ------------------------------------------------------------------------------


def _failing() -> Routine[None]:
    raise Bug
    yield


def _waiting(worker: Any) -> Routine[None]:
    bell = worker._bell()
    while not worker._state.stopping:
        yield Wait(bell, 0.005)


@pytest.mark.parametrize("kind", ["source", "presence"])
def test_a_helper_that_fails_ends_the_worker_with_its_error(kind: str) -> None:
    """Both runtimes stop, and raise what the routine raised."""

    async def check(worker: Any) -> None:
        worker._state.lanes[0].upkeep.watch_at = 1e18
        routines = [_waiting(worker)], [_waiting(worker)]
        routines[kind == "presence"].append(_failing())
        _doing(worker, *routines)
        with pytest.raises(Bug):
            await _done(worker.run())
        assert worker._state.stopping

    _on_both(check)


def test_all_helpers_are_waited_for_at_the_end() -> None:
    """`run` begins every routine, and returns when all of them have ended."""

    async def check(worker: Any) -> None:
        def routine(name: str) -> Routine[None]:
            bell = worker._bell()
            while not worker._state.stopping:
                yield Wait(bell, 0.005)
            yield Wait(bell, 0.05)
            assert threading.current_thread().daemon is isinstance(bell, ThreadBell)
            ended.append(name)

        ended: list[str] = []
        worker._state.lanes[0].upkeep.watch_at = 1e18
        a, b, c, h = map(routine, "abch")
        _doing(worker, [a, b, c], [h])
        worker.stop()
        await _done(worker.run())
        assert getattr(worker._state.slots[0].runner, "daemon", True)
        assert sorted(ended) == ["a", "b", "c", "h"]

    _on_both(check, heartbeat=None, concurrency=1)


# --- the end ------------------------------------------------------------------------------


class Settling:
    """A queue's ``ack`` or ``release`` that fails some times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0
        self.settled: list[ackq.Message] = []

    def __call__(self, *messages: ackq.Message, delay: float = 0) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise AWAY
        self.settled += messages
        return len(messages)

    async def awaited(self, *messages: ackq.Message, delay: float = 0) -> int:
        return self(*messages)

    def of(self, worker: Any) -> Any:
        """Return it as the queue of a worker has it."""
        return self.awaited if isinstance(worker, AsyncWorker) else self


def _fill(worker: Any, settling: Settling) -> list[ackq.Message]:
    """Give a worker a message in each place from which it must be settled."""
    state, lane = worker._state, worker._state.lanes[0]
    state.stopping = True
    lane.queue.ack = lane.queue.release = settling.of(worker)
    done, returned, waiting, running = (_message(id) for id in "abcd")
    lane.upkeep.done.append(done)
    lane.upkeep.returned.append((returned, Settlement("release")))
    state.feed.buffer.append(waiting)
    state.slots[0].message = running
    return [done, returned, waiting, running]


@pytest.mark.parametrize("failures", [0, 3])
def test_at_the_end_every_message_is_settled_or_given_back(failures: int) -> None:
    async def check(worker: Any) -> None:
        held = _fill(worker, settling := Settling(failures))
        if is_async := isinstance(worker, AsyncWorker):
            worker._cancels = True
            for slot in worker._state.slots:
                seconds = 60 if slot.message else 0.01
                slot.runner = asyncio.create_task(asyncio.sleep(seconds))
        await _done(worker._shut_down([]))  # it cancels the one that has a message
        assert {each.id for each in settling.settled} == set("abcd")
        assert [each.lease_lost for each in held] == [False, False, False, True]
        first, *others = worker._state.slots
        assert first.interrupted == ("stop" if is_async else "")  # a thread cannot be
        assert others[0].interrupted == ""
        if is_async:
            with pytest.raises(asyncio.CancelledError):
                await first.runner
            for slot in others:
                await slot.runner  # it had the time to end

    _on_both(check)


def test_a_server_that_stays_away_does_not_keep_a_worker_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "SHUTDOWN_TIMEOUT", 0.1)
    monkeypatch.setattr(tasks, "SHUTDOWN_TIMEOUT", 0.1)

    async def check(worker: Any) -> None:
        hanging: list[asyncio.Task[None]] = []
        worker._upkeep_interval = 0.02
        _fill(worker, settling := Settling(10**9))
        if isinstance(worker, AsyncWorker):
            worker._cancels = False
            worker._state.slots = worker._state.slots[:1]
            # A take that hangs, and a handler.
            hanging = [asyncio.create_task(asyncio.sleep(60)) for _ in range(2)]
            worker._state.slots[0].runner = hanging[1]
        began = time.monotonic()
        await _done(worker._shut_down(hanging[:1]))
        assert 0.09 <= time.monotonic() - began < 10
        # Once for acks and once for the others, in each round.
        assert (2 if hanging else 3) <= settling.calls <= 20
        for each in hanging:
            with pytest.raises(asyncio.CancelledError):
                await each

    _on_both(check)


# --- the gate, and threads for functions ---------------------------------------------------


def test_a_thread_is_started_only_when_all_others_are_busy() -> None:
    go_on = threading.Event()
    names: list[str] = []

    def function(message: ackq.Message) -> str:
        thread = threading.current_thread()
        assert thread.daemon
        names.append(thread.name)
        if message.id == "slow":
            go_on.wait(30)
        return message.id

    async def main() -> None:
        daemons = DaemonThreads()
        assert [await daemons.call(function, _message(id)) for id in "abc"] == ["a", "b", "c"]
        assert len(set(names)) == daemons._threads == 1
        slow = asyncio.create_task(daemons.call(function, _message("slow")))
        await asyncio.sleep(0)
        assert await daemons.call(function, _message("d")) == "d"
        assert len(set(names)) == 2
        go_on.set()
        assert await slow == "slow"
        assert [await daemons.call(function, _message(id)) for id in "ef"] == ["e", "f"]
        assert len(set(names)) == 2
        running = [each for each in threading.enumerate() if each.name in names]
        assert len(running) == 2
        daemons.close()
        for each in running:
            each.join(10)
            assert not each.is_alive()

    _run(main)


def test_a_result_that_nobody_waits_for_any_more_harms_nothing() -> None:
    go_on = threading.Event()
    seen: list[threading.Thread] = []

    def function(message: ackq.Message) -> None:
        seen.append(threading.current_thread())
        go_on.wait(30)

    async def main(cancelled: bool) -> None:
        daemons = DaemonThreads()
        call = asyncio.create_task(daemons.call(function, _message()))
        while not seen:
            await asyncio.sleep(0.001)
        call.cancel()
        await asyncio.wait([call])
        if cancelled:
            go_on.set()
            await daemons.call(function, _message())
            assert len(set(seen)) == 1
            daemons.close()

    asyncio.run(main(cancelled=True))
    seen.clear()
    go_on.clear()
    asyncio.run(main(cancelled=False))
    go_on.set()  # the loop is closed by now
    seen[0].join(10)
    assert not seen[0].is_alive()


def test_lists_that_cannot_be_left_do_not_keep_a_worker_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits for all of them together, not for one after the other."""
    monkeypatch.setattr(threads, "LEAVE_TIMEOUT", 0.2)
    monkeypatch.setattr(tasks, "LEAVE_TIMEOUT", 0.2)

    async def check(worker: Any) -> None:
        def heartbeat(bell: Any) -> Routine[None]:
            while not go_on.is_set():
                yield Wait(bell, 0.005)

        go_on = threading.Event()
        worker._state.lanes[0].upkeep.watch_at = 1e18
        _doing(worker, [_waiting(worker)], [heartbeat(worker._bell()) for _ in range(50)])
        worker.stop()
        began = time.monotonic()
        await _done(worker.run())
        assert time.monotonic() - began < 8
        go_on.set()

    _on_both(check, concurrency=1)


def test_upkeep_goes_on_while_helpers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What handlers finish meanwhile is acked before the last helper has ended."""
    monkeypatch.setattr(threads, "SHUTDOWN_TIMEOUT", 0.2)
    monkeypatch.setattr(tasks, "SHUTDOWN_TIMEOUT", 0.2)

    async def check(worker: Any) -> None:
        def helper() -> Routine[None]:
            bell, state = worker._bell(), worker._state
            while not state.stopping:
                yield Wait(bell, 0.005)
            yield Wait(bell, 0.02)
            state.lanes[0].upkeep.done.append(_message())
            for _ in range(2000):
                if settling.settled:
                    acked.append(True)
                    return
                yield Wait(bell, 0.005)

        acked: list[bool] = []
        settling = Settling(0)
        worker._state.lanes[0].upkeep.watch_at = 1e18
        worker._state.lanes[0].queue.ack = settling.of(worker)
        _doing(worker, [helper()], [])
        worker.stop()
        await _done(worker.run())
        assert acked == [True]

    _on_both(check, heartbeat=None, concurrency=1)


# --- slots --------------------------------------------------------------------------------


def test_at_the_end_of_the_program_a_handler_is_cancelled_and_its_message_released() -> None:
    """As `asyncio.run` cancels the tasks that are left."""

    async def main() -> None:
        async with _async_worker(concurrency=1) as worker:
            worker._parked, worker._waking, worker._cancels = deque(), False, True
            worker._main = asyncio.create_task(asyncio.sleep(60))
            state, (slot,) = worker._state, worker._state.slots
            message = _message()
            state.feed.buffer.append(message)
            worker._handler = lambda _: asyncio.sleep(60)
            slot.runner = asyncio.create_task(worker._serve(slot))
            while slot.message is None:
                await asyncio.sleep(0)
            worker._main.cancel()
            slot.runner.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slot.runner
            assert list(state.lanes[0].upkeep.returned) == [(message, Settlement("release"))]

    _run(main)


def test_only_the_handler_of_the_named_message_is_cancelled_in_a_thread() -> None:
    """By the time that a thread is interrupted, it may handle the next message."""
    reached = threading.Event()
    cancelled: list[str] = []

    async def wait() -> None:
        for _ in range(2):
            try:
                reached.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(slot.interrupted)
                reached.clear()

    slot, message = Slot(), _message()
    with _worker() as worker:
        worker._interrupt(slot, message, "time limit")  # there is no task
        thread = threading.Thread(target=lambda: asyncio.run(_finish(slot, message, wait())))
        thread.start()
        assert reached.wait(10)
        worker._interrupt(slot, _message("other"), "time limit")
        worker._interrupt(slot, message, "lost lease")
        wait_until(lambda: cancelled and reached.is_set(), "the first cancellation")
        worker._interrupt(slot, message, "lost lease")  # once for each reason
        worker._interrupt(slot, message, "stop")
        thread.join(10)
        assert cancelled == ["lost lease", "lost lease"]
        assert slot.task is None
        worker._interrupt(slot, message, "stop")
        (loop := asyncio.new_event_loop()).close()
        slot.task = message, SimpleNamespace(get_loop=lambda: loop)
        worker._interrupt(slot, message, "stop")  # it has just ended


def test_what_happened_before_a_task_began_cancels_it_in_a_thread() -> None:
    for flag, reason in (("timed_out", "time limit"), ("lease_lost", "lost lease")):
        slot, message = Slot(interrupted="stop"), _message()
        setattr(message, flag, True)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(_finish(slot, message, asyncio.Event().wait()))
        assert slot.interrupted == reason
