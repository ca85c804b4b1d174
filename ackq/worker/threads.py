"""`Worker`: handlers in threads."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from ackq.queue.client import Queue
from ackq.queue.messages import Message
from ackq.sharded import ShardedQueue
from ackq.worker.base import SHUTDOWN_TIMEOUT, BaseWorker
from ackq.worker.batch import Pile
from ackq.worker.effects import Bell, Call, Routine
from ackq.worker.presence import LEAVE_TIMEOUT
from ackq.worker.signals import stopping_on_signals
from ackq.worker.slot import Lent, Slot
from ackq.worker.state import LOST_LEASE, STOP, TIME_LIMIT, State
from ackq.worker.upkeep import abandon, upkeep
from ackq.worker.verdicts import plain_value

T = TypeVar("T")
#: In the threads of workers: what runs an awaitable in the event loop of the thread.
_HERE = threading.local()


def finish(awaitable: Awaitable[Any]) -> Any:
    """Await in the event loop of this worker's thread, in a copy of this context.

    The worker cancels it as it cancels a handler that returns an awaitable: when the time limit has
    passed, the lease is lost, or the worker's grace has ended. Outside of a worker's threads, a
    new event loop runs it, in another thread if an event loop runs in this one.
    """
    return getattr(_HERE, "finish", _finish_alone)(awaitable)


def _finish_alone(awaitable: Awaitable[Any]) -> Any:
    async def run() -> Any:
        return await awaitable

    return outside_of_loops(lambda: asyncio.run(run()))


def outside_of_loops(function: Callable[[], T]) -> T:
    """Call a function here, or in a thread if an event loop runs here.

    Coroutines that the function runs need a loop of their own.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, function).result()


class ThreadBell:
    """A bell for one waiting thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        """End the current wait, or else the next one."""
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait for a ring."""
        self._event.wait(seconds)
        self._event.clear()


class Gate:
    """The place where threads without a message wait.

    Only one thread is woken at a time. It wakes the next if there is more to do. So a burst that
    one thread can handle alone costs one switch between threads, not one per message.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._changed = threading.Condition()
        self.waking = False
        self.parked = 0

    def park(self) -> None:
        """Wait until there may be a message or the worker stops."""
        state = self._state
        with self._changed:
            while not state.feed.buffer and not state.stopping:
                self.parked += 1
                self._changed.wait()
                self.parked -= 1
                self.waking = False

    def wake(self) -> None:
        """Wake one thread, unless one is already waking up; if stopping, wake all."""
        with self._changed:
            if self._state.stopping:
                self._changed.notify_all()
            elif self.parked and not self.waking:
                self.waking = True
                self._changed.notify()


class Worker(BaseWorker[Queue, ShardedQueue]):
    """Take messages and pass each to a handler, in threads.

    Guarantee: at least once. A message is acked only after its handler has returned. If the
    process dies, the message is redelivered. Stale acks are rejected. Acks travel with the next
    take, or within 50 ms if there is none, so a slow handler does not delay other handlers' acks.
    """

    _takes_from = (Queue, ShardedQueue)

    def run(self, *, drain: bool = False) -> None:
        """Work until `stop` or a signal that stops. Signals are handled only in the main thread.

        While Redis is unreachable, the worker keeps trying. Handlers that still run after
        ``grace`` seconds, or after a second signal, are abandoned and end with the process.

        Args:
            drain: stop when no queue has ready messages. Defaults to False.

        Raises:
            ConfigurationError: the server does not support such a queue, or the port of the
                health check is in use.
        """
        state = self._begin(drain)
        self._gate = Gate(state)
        sources, reports = self._started(*self._sources), self._started(*self._reports)
        helpers: list[threading.Thread] = []
        reporters: list[threading.Thread] = []
        # Before the first handler starts, so that an early signal does not kill it.
        with stopping_on_signals(self.stop, self.supervised), self._healthy():
            try:
                helpers += map(self._start, sources)
                reporters += map(self._start, reports)
                for slot in state.slots:
                    slot.runner = threading.Thread(target=self._serve, args=(slot,), daemon=True)
                    slot.runner.start()
                self._run_upkeep(helpers)
            finally:
                self._end(*self._sources)
                self._shut_down(helpers)
                self._end(*self._reports)
                _join(reporters, LEAVE_TIMEOUT)
                for queue in self._own_consumers():
                    queue.close()
        if state.fatal is not None:
            raise state.fatal

    def _serve(self, slot: Slot) -> None:
        state, gate = self._state, self._gate
        feed, clock, looks = state.feed, state.clock, state.watched or state.batching
        buffer, handler = feed.buffer, self._handler
        # The runner creates its event loop only when the handler first returns an awaitable.
        with contextlib.closing(asyncio.Runner()) as runner:
            finish_here = _HERE.finish = _finisher(slot, runner)
            while not state.stopping:
                slot.taking = True
                try:
                    item = buffer.popleft()
                except IndexError:
                    slot.taking = False
                    gate.park()
                    continue
                slot.started = clock()
                if piled := type(item) is Pile:
                    slot.batch = item.messages
                else:
                    slot.message = item
                slot.taking = False
                if feed.waits:
                    feed.made_room()
                if gate.parked and not gate.waking and buffer:
                    gate.wake()
                if looks and not state.ready(slot):
                    continue
                context, error = copy_context(), None
                try:
                    if piled:
                        result = context.run(self._batch_handler, [*map(Lent, slot.batch)])
                    else:
                        result = context.run(handler, Lent(item))
                    if result is not None:
                        context.run(plain_value, result, finish_here)
                except BaseException as raised:
                    error = raised
                state.ended(slot, error)
                slot.interrupted, error = "", None

    def _run_upkeep(self, helpers: list[threading.Thread]) -> None:
        state = self._state
        while not self._is_over(any(helper.is_alive() for helper in helpers)):
            drive(self._round())
            state.upkeep_bell.wait(self._upkeep_interval)

    def _shut_down(self, helpers: list[threading.Thread]) -> None:
        """Settle finished messages; release the messages of handlers that still run."""
        state, until = self._state, time.monotonic() + SHUTDOWN_TIMEOUT
        ending = list(helpers)
        for slot in state.slots:
            if (task := slot.task) is not None:
                self._interrupt(slot, task[0], STOP)
                ending.append(slot.runner)
        # Wait for a take in progress: its messages would otherwise be stuck until their leases
        # end. Also wait for cancelled handlers to clean up.
        _join(ending, SHUTDOWN_TIMEOUT)
        abandon(state)
        drive(upkeep(state))
        while state.unsettled() and time.monotonic() < until:
            time.sleep(self._upkeep_interval)
            drive(upkeep(state))

    def _start(self, routine: Routine[None]) -> threading.Thread:
        def run() -> None:
            try:
                drive(routine)
            except BaseException as error:
                self._state.fatal = error
                self._state.stop()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _bell(self) -> Bell:
        return ThreadBell()

    def _wake(self) -> None:
        self._gate.wake()

    def _interrupt(self, slot: Slot, message: Message, reason: str) -> None:
        """Cancel an asynchronous handler. A function can read its message's flags."""
        task = slot.task
        if task is not None and task[0] is message:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                task[1].get_loop().call_soon_threadsafe(_cancel, slot, task[1], reason)


def _join(threads: Iterable[threading.Thread], timeout: float) -> None:
    """Wait for all threads, at most ``timeout`` seconds together."""
    until = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def drive(routine: Routine[None]) -> None:
    """Run a routine to its end: carry out each call and wait that it yields."""
    try:
        step = next(routine)
        while True:
            answer = None
            try:
                if isinstance(step, Call):
                    answer = step.method(*step.args, **step.keywords)
                else:
                    step.bell.wait(step.seconds)
            except Exception as error:
                step = routine.throw(error)
            else:
                step = routine.send(answer)
    except StopIteration:
        return


def _finisher(slot: Slot, runner: asyncio.Runner) -> Callable[[Awaitable[Any]], Any]:
    """Return what awaits in the loop of a slot's thread, for the message that the slot has then."""

    def finish_here(awaitable: Awaitable[Any]) -> Any:
        assert slot.message is not None
        return runner.run(_finish(slot, slot.message, awaitable), context=copy_context())

    return finish_here


async def _finish(slot: Slot, message: Message, awaitable: Awaitable[Any]) -> Any:
    """Await in a task that another thread can cancel."""
    task = asyncio.current_task()
    assert task is not None
    slot.interrupted = ""
    slot.task = message, task
    # Another thread may have looked for the task too early.
    if message.timed_out:
        _cancel(slot, task, TIME_LIMIT)
    elif message.lease_lost:
        _cancel(slot, task, LOST_LEASE)
    try:
        return await awaitable
    finally:
        slot.task = None


def _cancel(slot: Slot, task: asyncio.Task[Any], reason: str) -> None:
    """Cancel a running task, unless this was done already. Runs in the loop of the task."""
    if not task.done() and slot.interrupted != reason:
        slot.interrupted = slot.interrupted or reason
        task.cancel()
