"""Whatever a task returns, raises or is: its message is settled, and counted where it failed."""

import asyncio
import contextlib
import re
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest

from ackq import Message
from ackq.errors import ConfigurationError
from ackq.tasks import Backoff, Breaker, Failed, Later, Retry, injected
from ackq.worker import Again, Reject
from tests.tasks.conftest import Rig
from tests.waiting import wait_until
from tests.worker.crooked import MEDDLERS, RAN, RESULTS, generates, generates_async, hostile
from tests.worker.test_crooked_handlers import check_results


def define(rig: Rig, batch: bool, run: Any, **settings: Any) -> Any:
    """Return a task, or a batch task of the same queue, that calls ``run`` with a name."""
    if not batch:
        return rig.tasks.task(name="run", max_receives=1, **settings)(run)

    def run_all(names: list[str], messages: list[Message] = injected) -> Any:
        return run(names[0])

    usual: dict[str, Any] = {"name": "run", "queue": rig.queue.name, "max_receives": 1}
    return rig.tasks.batch(size=1, **usual | settings)(run_all)


@pytest.mark.parametrize("batch", [False, True], ids=["task", "batch"])
def test_what_a_task_returns_decides_and_nothing_is_acked_unrun(rig: Rig, batch: bool) -> None:
    RAN.clear()

    def run(name: str) -> Any:
        return RESULTS[name][0](name)

    task = define(rig, batch, run)
    for name in RESULTS:
        rig.push(task.options(id=name), name)
    rig.drain(concurrency=3)
    stats = rig.queue.stats()
    assert (stats.ready, stats.in_flight, stats.delayed) == (0, 0, 0)
    check_results(rig.queue.dead_letters(100))


@pytest.mark.parametrize("batch", [False, True], ids=["task", "batch"])
def test_no_error_of_a_task_is_lost_or_ends_the_worker(rig: Rig, batch: bool) -> None:
    errors = hostile()

    def run(name: str) -> None:
        if name in errors:
            raise errors[name]

    task = define(rig, batch, run)
    for name in (*list(errors)[::7], "neighbour"):
        rig.push(task.options(id=name), name)
    rig.drain(concurrency=3)
    stats = rig.queue.stats()
    assert (stats.ready, stats.in_flight) == (0, 0)
    assert stats.dead + stats.delayed == len(list(errors)[::7])


@pytest.mark.parametrize("batch", [False, True], ids=["task", "batch"])
def test_a_task_that_changes_its_message_hurts_none(rig: Rig, batch: bool) -> None:
    def run(name: str, message: Message = injected) -> None:
        MEDDLERS[name.partition(",")[0]](message)
        if name.endswith("fails"):
            raise OSError

    def run_all(names: list[str], messages: list[Message] = injected) -> None:
        run(names[0], messages[0])

    settings: dict[str, Any] = {"max_receives": 1, "breaker": Breaker(1000, pause=1)}
    if batch:
        task: Any = rig.tasks.batch(size=1, queue=rig.queue.name, **settings)(run_all)
    else:
        task = rig.tasks.task(**settings)(run)
    names = [f"{name}{end}" for name in MEDDLERS for end in ("", ", fails")]
    for name in names:
        rig.push(task.options(id=name), name)
    rig.drain(concurrency=3)
    stats = rig.queue.stats()
    assert (stats.ready, stats.in_flight, stats.delayed) == (0, 0, 0)
    dead = {letter.id for letter in rig.queue.dead_letters(len(names))}
    assert dead == {name for name in names if name.endswith("fails")}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["def", "async def"])
@pytest.mark.parametrize("batch", [False, True], ids=["task", "batch"])
def test_a_task_that_exits_has_failed(rig: Rig, batch: bool, asynchronous: bool) -> None:
    def leave(name: str) -> None:
        sys.exit(3)

    async def leave_async(name: str) -> None:
        sys.exit(3)

    task = define(rig, batch, leave_async if asynchronous else leave)
    rig.push(task, "a")
    rig.drain()
    (letter,) = rig.queue.dead_letters()
    assert (letter.reason, letter.receive_count) == ("max receives", 1)
    assert letter.errors[-1].type == "SystemExit"


@pytest.mark.parametrize("function", [generates, generates_async])
def test_a_task_or_a_middleware_with_a_yield_is_refused(rig: Rig, function: Any) -> None:
    for define_ in (rig.tasks.task, rig.tasks.batch(), rig.tasks.middleware):
        with pytest.raises(ConfigurationError, match="has a yield, so calling it runs nothing"):
            define_(function)


def test_a_verdict_in_a_batch_of_one_keeps_its_cause(rig: Rig) -> None:
    @rig.tasks.batch(size=1, name="run", queue=rig.queue.name, max_receives=1)
    def run(names: list[str], messages: list[Message] = injected) -> None:
        try:
            raise OSError("why")
        except OSError as error:
            raise Failed({messages[0]: Again(0)}) from error

    rig.push(run, "a")
    rig.drain()
    assert rig.queue.stats().dead == 1


@pytest.mark.parametrize(
    ("ending", "pauses"),
    [(OSError(), True), (Again(0), True), (Later(0), False), (None, False), ("late", True)],
    ids=str,
)
def test_a_breaker_counts_failures_and_nothing_else(rig: Rig, ending: Any, pauses: bool) -> None:
    @rig.tasks.task(
        name="run",
        breaker=Breaker(failures=1, pause=3600),
        retry=Retry(delays=Backoff(base=300)),
        time_limit=0.05 if ending == "late" else None,
    )
    def run(message: Message = injected) -> None:
        if ending == "late":
            wait_until(lambda: message.timed_out, "the time limit")
        elif ending is not None and message.receive_count == 1 and not ran.is_set():
            ran.set()
            raise ending

    ran = threading.Event()
    rig.push(run)
    rig.drain(concurrency=1)
    circuit = run.definition.circuit
    assert circuit is not None
    assert (circuit.wait() > 0) == pauses


def test_a_verdict_is_not_an_error_that_a_retry_excludes(rig: Rig) -> None:
    @rig.tasks.task(name="run", retry=Retry(on=(OSError,)))
    def run() -> None:
        raise Again()

    rig.push(run)
    rig.drain()
    stats = rig.queue.stats()
    assert (stats.dead, stats.delayed + stats.ready) == (0, 1)


ONLY = Retry(on=(OSError,))
BUT = Retry(never=(OSError,))


@pytest.mark.parametrize(
    ("retry", "errors", "is_final"),
    [
        (ONLY, [OSError()], False),
        (ONLY, [OSError(), ExceptionGroup("", [ConnectionError()])], False),
        (ONLY, [OSError(), KeyError()], True),
        (ONLY, [ExceptionGroup("", [KeyError()])], True),
        (Retry(on=(ExceptionGroup,)), [KeyError()], False),
        (BUT, [KeyError()], False),
        (BUT, [KeyError(), ExceptionGroup("", [OSError()])], True),
        (Retry(never=(ExceptionGroup,)), [KeyError()], True),
    ],
    ids=str,
)
def test_a_group_is_retried_if_all_of_its_errors_are(
    retry: Retry, errors: list[Exception], is_final: bool
) -> None:
    assert retry.is_final(ExceptionGroup("", errors)) == is_final


async def forgets(message: Any, call: Any) -> None:
    call()


@pytest.mark.parametrize("above", [False, True], ids=["inner", "outer"])
def test_a_middleware_that_awaits_no_call_fails_the_message_and_the_push(
    rig: Rig, above: bool
) -> None:
    if not rig.is_async:
        return  # calling is running

    @rig.tasks.task(name="run", max_receives=1)
    def run() -> None:
        pass

    rig.push(run)
    if not above:
        rig.middleware(rig.tasks.middleware, lambda _: contextlib.nullcontext())
    rig.tasks.middleware(forgets)
    rig.drain()
    (letter,) = rig.queue.dead_letters()
    assert letter.errors[-1].text == "a middleware has not awaited call(): return await call()"
    rig.tasks.push_middleware(forgets)
    with pytest.raises(TypeError, match="return await call"):
        rig.push(run)


async def helper(call: Any) -> Any:
    return call()


#: What middleware does, how often its task runs then, and the end of its message: empty for an ack.
MIDDLEWARE: dict[str, tuple[Any, int, str]] = {
    "forgets": (lambda message, call: None, 0, "has not called call()"),
    "names": (lambda message, call: call, 0, "nobody called"),
    "leaves out": (lambda message, call: "left out", 0, ""),
    "generator": (lambda message, call: (call() for _ in "a"), 0, "remove the yield"),
    "awaitable": (lambda message, call: helper(call), 1, ""),
    "error": (lambda message, call: OSError("an error"), 0, "an error"),
    "verdict": (lambda message, call: Reject("a verdict"), 0, "a verdict"),
    "future": (lambda message, call: Future(), 0, "may still run"),
    "meddles": (lambda message, call: [each(message) for each in MEDDLERS.values()], 0, ""),
}


@pytest.mark.parametrize("batch", [False, True], ids=["task", "batch"])
@pytest.mark.parametrize("within", [False, True], ids=["alone", "within another"])
def test_what_middleware_does_is_judged_like_a_handler(rig: Rig, batch: bool, within: bool) -> None:
    def chosen(message: Any, call: Any) -> Any:
        return MIDDLEWARE[message.id][0](message, call)

    async def chosen_async(message: Any, call: Any) -> Any:
        return chosen(message, call)

    if within:  # one that drops the result
        rig.middleware(rig.tasks.middleware, lambda _: contextlib.nullcontext())
    rig.tasks.middleware(chosen_async if rig.is_async else chosen)
    ran: list[str] = []

    def run(name: str) -> None:
        ran.append(name)

    task = define(rig, batch, run)
    for name in MIDDLEWARE:
        rig.push(task.options(id=name), name)
    rig.drain(concurrency=1)
    ended = {
        each.id: each.errors[-1].text if each.errors else each.reason
        for each in rig.queue.dead_letters(20)
    }
    for name, (_, runs, text) in MIDDLEWARE.items():
        assert (name, ran.count(name)) == (name, runs)
        assert (name in ended) == bool(text), name
        assert text in ended.get(name, ""), name


def test_middleware_that_does_not_wait_for_its_call_fails_the_message(rig: Rig) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def run(name: str) -> None:
        begun.set()
        assert go_on.wait(10)

    def leaves(message: Any, call: Any) -> None:
        threading.Thread(target=call).start()
        assert begun.wait(10)

    async def leaves_async(message: Any, call: Any) -> None:
        left.append(asyncio.ensure_future(call()))

    left: list[Any] = []
    rig.tasks.middleware(leaves_async if rig.is_async else leaves)
    rig.push(define(rig, False, run), "a")
    rig.drain()
    go_on.set()
    (letter,) = rig.queue.dead_letters()
    assert re.search("has not (waited for the end of|awaited) call", letter.errors[-1].text)


def test_middleware_that_gives_up_a_function_waits_for_its_end(rig: Rig) -> None:
    """The thread goes on, so another delivery would run beside it."""
    if not rig.is_async:
        return  # nothing cancels a thread
    ended: list[int] = []

    @rig.tasks.task(name="run", max_receives=1)
    def run(message: Message = injected) -> None:
        time.sleep(0.2)
        ended.append(message.receive_count)

    async def impatient(message: Message, call: Any) -> Any:
        return await asyncio.wait_for(call(), 0.05)

    rig.tasks.middleware(impatient)
    rig.push(run)
    rig.drain()
    assert (ended, rig.queue.stats().dead) == ([1], 0)


@pytest.mark.parametrize("calls", [False, True])
def test_a_push_has_a_result_or_fails(rig: Rig, calls: bool) -> None:
    def drops(message: Any, call: Any) -> None:
        if calls:
            call()

    async def drops_async(message: Any, call: Any) -> None:
        if calls:
            await call()

    rig.tasks.push_middleware(drops_async if rig.is_async else drops)
    task = define(rig, False, lambda name: None)
    if calls:
        assert rig.push(task.options(id="a"), "a") == "a"
        return
    with pytest.raises(TypeError, match="has not called call"):
        rig.push(task, "a")


@dataclass
class Row:
    number: int

    def __post_init__(self) -> None:
        if self.number == 1 and failing:
            raise KeyError("no such number")


failing: list[bool] = []


def test_a_row_that_cannot_be_made_fails_alone(rig: Rig) -> None:
    stored: list[int] = []

    @rig.tasks.batch(size=3, wait=5, name="run", queue=rig.queue.name, max_receives=2)
    def run(rows: list[Row]) -> None:
        stored.extend(row.number for row in rows)

    failing.clear()
    for number in range(3):
        rig.push(run, Row(number))
    failing.append(True)
    rig.drain(concurrency=1, backoff=Backoff(base=300))
    assert (sorted(stored), rig.queue.stats().delayed) == ([0, 2], 1)
