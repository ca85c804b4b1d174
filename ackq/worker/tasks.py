"""`AsyncWorker`: handlers in the tasks of an event loop, and threads for synchronous functions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message
from ackq.sharded import AsyncShardedQueue
from ackq.worker.base import SHUTDOWN_TIMEOUT, BaseWorker, is_async
from ackq.worker.batch import Pile
from ackq.worker.effects import Bell, Call, Routine
from ackq.worker.forks import end_if_forked
from ackq.worker.presence import LEAVE_TIMEOUT
from ackq.worker.signals import stopping_on_signals
from ackq.worker.slot import Lent, Slot
from ackq.worker.state import STOP
from ackq.worker.upkeep import abandon, upkeep
from ackq.worker.verdicts import plain_value_async

#: In the tasks of workers, and in those that their handlers start: the place of the handler.
_HERE: ContextVar[Slot | None] = ContextVar("_HERE", default=None)


def must_leave() -> bool:
    """Return whether a handler that is cancelled must end now, whatever it has begun.

    Otherwise only its time limit, the loss of its lease or its own code has cancelled it, and its
    message stays here until all of it has ended.
    """
    slot = _HERE.get()
    return slot is None or slot.interrupted == STOP


class TaskBell:
    """A bell for one waiting task."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """End the current wait, or else the next one."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait for a ring."""
        # Not asyncio.timeout, which cancels its task: to `_cancelled`, the program would end.
        timer = asyncio.get_running_loop().call_later(seconds, self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
        self._event.clear()


class AsyncWorker(BaseWorker[AsyncQueue, AsyncShardedQueue]):
    """Take messages and pass each to a handler, in tasks.

    Guarantee: at least once. A message is acked only after its handler has returned. If the
    process dies, the message is redelivered. Stale acks are rejected. Acks travel with the next
    take, or within 50 ms if there is none, so a slow handler does not delay other handlers' acks.

    A synchronous handler runs in threads. Each message has its own context: a context variable that
    its handler sets is not visible to later messages.
    """

    _takes_from = (AsyncQueue, AsyncShardedQueue)

    async def run(self, *, drain: bool = False) -> None:
        """Work until `stop` or a signal that stops. Signals are handled only in the main thread.

        While Redis is unreachable, the worker keeps trying. Handlers that still run after
        ``grace`` seconds, or after a second signal, are cancelled.

        Args:
            drain: stop when no queue has ready messages. Defaults to False.

        Raises:
            ConfigurationError: the server does not support such a queue, or the port of the
                health check is in use.
        """
        state = self._begin(drain)
        self._parked: deque[asyncio.Future[None]] = deque()
        self._waking = False
        self._main: Any = asyncio.current_task()
        self._cancels = is_async(self._handler)
        daemons = None if self._cancels else DaemonThreads()
        if daemons is not None:
            self._handler = partial(daemons.call, self._handler)
            self._batch_handler = partial(daemons.call, self._batch_handler)
        sources, reports = self._started(*self._sources), self._started(*self._reports)
        with stopping_on_signals(self.stop, self.supervised), self._healthy():
            helpers = [*map(self._start, sources)]
            reporters = [*map(self._start, reports)]
            for slot in state.slots:
                slot.runner = asyncio.create_task(self._serve(slot))
            try:
                await self._run_upkeep(helpers)
            finally:
                self._end(*self._sources)
                await self._shut_down(helpers)
                self._end(*self._reports)
                await _end(reporters, LEAVE_TIMEOUT)
                for queue in self._own_consumers():
                    await queue.aclose()
                if daemons is not None:
                    daemons.close()
        if state.fatal is not None:
            raise state.fatal

    async def _serve(self, slot: Slot) -> None:
        state, parked, handler = self._state, self._parked, self._handler
        feed, clock, looks = state.feed, state.clock, state.watched or state.batching
        buffer, cancelling = feed.buffer, slot.runner.cancelling
        _HERE.set(slot)
        while not state.stopping:
            if not buffer:
                await self._park()
                continue
            item = buffer.popleft()
            slot.started = clock()
            if piled := type(item) is Pile:
                slot.batch = item.messages
            else:
                slot.message = item
            if feed.waits:
                feed.made_room()
            if parked and not self._waking and buffer:
                self._wake()
            if looks and not state.ready(slot):
                continue
            context, error = copy_context(), None
            try:
                lent = [*map(Lent, slot.batch)] if piled else Lent(item)
                called = (self._batch_handler if piled else handler)(lent)
                result = await _awaited_in(context, called)
                if result is not None:
                    await _awaited_in(context, plain_value_async(result))
            except BaseException as raised:
                if _is_left(raised):
                    raise  # the handler has not failed
                error = raised
            if cancelling():
                await self._cancelled(slot, error)
            else:
                state.ended(slot, error)
            slot.interrupted, error = "", None

    async def _cancelled(self, slot: Slot, error: BaseException | None) -> None:
        """Record how a handler ended whose task was cancelled: by the worker, or the user's code.

        Raises:
            CancelledError: the program ends.
        """
        runner = slot.runner
        if ends := not slot.interrupted and bool(self._main.cancelling()):
            slot.interrupted = STOP
        self._state.ended(slot, error)
        if ends:
            raise asyncio.CancelledError
        # It was cancelled twice if the lease was lost after the time limit had passed.
        while runner.cancelling():
            runner.uncancel()
        try:
            await asyncio.sleep(0)  # where a handler that cancelled itself and returned ends
        except asyncio.CancelledError:
            if runner.cancelling():
                raise

    async def _park(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked.append(future)
        try:
            await future
        finally:
            self._waking = False
            if not future.done():
                self._parked.remove(future)

    def _wake(self) -> None:
        """Wake one slot, which wakes the next if there is more to do; if stopping, wake all."""
        if self._state.stopping:
            while self._parked:
                _resolve(self._parked.popleft())
        elif self._parked and not self._waking:
            self._waking = True
            _resolve(self._parked.popleft())

    async def _run_upkeep(self, helpers: list[asyncio.Task[None]]) -> None:
        state = self._state
        while not self._is_over(not all(helper.done() for helper in helpers)):
            await drive(self._round())
            await state.upkeep_bell.wait(self._upkeep_interval)

    async def _shut_down(self, helpers: list[asyncio.Task[None]]) -> None:
        """Settle finished messages; cancel handlers that still run and release their messages."""
        state = self._state
        until = state.clock() + SHUTDOWN_TIMEOUT
        for slot in state.slots:
            if slot.message is not None:
                self._interrupt(slot, slot.message, STOP)
        # Wait for a take in progress: its messages would otherwise be stuck until their leases
        # end. Also wait for cancelled handlers to clean up.
        ending = {*helpers, *(slot.runner for slot in state.slots if self._cancels)}
        await asyncio.wait(ending, timeout=SHUTDOWN_TIMEOUT)
        abandon(state)
        await drive(upkeep(state))
        while state.unsettled() and state.clock() < until:
            await asyncio.sleep(self._upkeep_interval)
            await drive(upkeep(state))
        for task in (*helpers, *(slot.runner for slot in state.slots)):
            task.cancel()

    def _start(self, routine: Routine[None]) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                await drive(routine)
            except Exception as error:
                self._state.fatal = error
                self._state.stop()

        return asyncio.create_task(run())

    def _bell(self) -> Bell:
        return TaskBell()

    def _interrupt(self, slot: Slot, message: Message, reason: str) -> None:
        """Cancel an asynchronous handler. One in a thread can read its message's flags."""
        slot.interrupted = slot.interrupted or reason
        if self._cancels:
            slot.runner.cancel()


def _is_left(error: BaseException) -> bool:
    """Return whether Python closes a coroutine because its event loop has ended before it."""
    if type(error) is not GeneratorExit:
        return False
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return False
    return True


async def drive(routine: Routine[None]) -> None:
    """Run a routine to its end: carry out each call and wait that it yields."""
    try:
        step = next(routine)
        while True:
            end_if_forked()
            answer = None
            try:
                if isinstance(step, Call):
                    answer = await step.method(*step.args, **step.keywords)
                else:
                    await step.bell.wait(step.seconds)
            except Exception as error:
                step = routine.throw(error)
            else:
                step = routine.send(answer)
    except StopIteration:
        return


async def _end(tasks: list[asyncio.Task[None]], timeout: float) -> None:
    """Wait for all tasks, at most ``timeout`` seconds together; then cancel them."""
    if tasks:
        await asyncio.wait(tasks, timeout=timeout)
    for task in tasks:
        task.cancel()


def _resolve(future: asyncio.Future[Any], result: Any = None) -> None:
    if not future.done():
        future.set_result(result)


@types.coroutine
def _awaited_in(context: Context, awaitable: Awaitable[Any]) -> Generator[Any, Any, Any]:
    """Await in a context, within the current task. Each message gets a context, so that no context
    variable reaches the next one.

    A new task would do the same, for ten times as much, and its cancellation would have to be
    passed on.
    """
    step = awaitable if isinstance(awaitable, Coroutine) else _await(awaitable)
    advance, argument = step.send, None
    while True:
        try:
            waited_for = context.run(advance, argument)
        except StopIteration as ended:
            return ended.value
        end_if_forked()  # before any other task of the loop goes on
        try:
            argument = yield waited_for
            advance = step.send
        except BaseException as error:
            advance, argument = step.throw, error


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


#: What a function returned and what it raised.
Outcome = tuple[Any, BaseException | None]
_Task = tuple[Callable[[], Any], "asyncio.Future[Outcome]"]


class DaemonThreads:
    """Call functions in threads; start a thread only when all others are busy."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = 0
        self._running = 0

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in a thread, in a copy of this context; return what it returns."""
        return value_of(await self.begin(function, *args))

    def begin(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Outcome]:
        """Begin a call. Errors travel as plain values; pass the result of the future to `value_of`.

        A task would raise a SystemExit out of the event loop, and a future would look at the error,
        whose class may fail when it is looked at.
        """
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._running += 1
        future.add_done_callback(self._ended)
        if self._running > self._threads:
            self._threads += 1
            threading.Thread(target=self._serve, daemon=True).start()
        self._tasks.put((partial(copy_context().run, function, *args), future))
        return future

    def _ended(self, future: asyncio.Future[Outcome]) -> None:
        self._running -= 1

    def close(self) -> None:
        """Let threads end once they are idle."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, future = task
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:
                error = raised
            end_if_forked(error)
            try:
                future.get_loop().call_soon_threadsafe(_resolve, future, (result, error))
            except RuntimeError:
                return  # the loop is closed: nothing waits for the result
            del task, function, future, result, error


def value_of(outcome: Outcome) -> Any:
    """Return what a function returned, or raise what it raised."""
    result, error = outcome
    if error is None:
        return result
    if issubclass(type(error), StopIteration):
        raise RuntimeError("the handler raised StopIteration")  # a coroutine cannot raise it
    raise error
