"""Whatever a handler returns or raises: nothing is lost or acked unrun, and its slot goes on."""

import asyncio
import contextlib
import logging
import pickle
import re
from collections.abc import Iterator
from typing import Any

import pytest

import ackq
from ackq import Message
from ackq.cli.dead import _reason_of
from ackq.core.failure import Failure, describe
from ackq.core.fencing import Leased
from ackq.errors import ConfigurationError
from ackq.worker import Again, Backoff, Batch, Failed, Hooks, Reject, Release, Schedule, Terms
from ackq.worker.logs import JsonFormatter, TextFormatter, log
from ackq.worker.slot import Lent
from tests.waiting import wait_until
from tests.worker.conftest import Rig, settled
from tests.worker.crooked import (
    MEDDLERS,
    RAN,
    RESULTS,
    Handler,
    generates,
    generates_async,
    hostile,
    raising,
)


@pytest.fixture(autouse=True)
def none_ran() -> None:
    RAN.clear()


def check_results(letters: list[ackq.DeadLetter]) -> None:
    """Check that each message of `RESULTS` ended as it should."""
    ended = {
        letter.id: letter.errors[-1].text if letter.errors else letter.reason for letter in letters
    }
    expected = {name: text for name, (_, text) in RESULTS.items() if text}
    assert ended.keys() == expected.keys()
    for name, text in expected.items():
        assert re.search(re.escape(text), ended[name]), (name, ended[name])
    assert {name for name, (_, text) in RESULTS.items() if not text} == RAN


@pytest.mark.parametrize("batch", [None, Batch(1, wait=0)], ids=["single", "batch"])
def test_what_a_handler_returns_decides_and_nothing_is_acked_unrun(rig: Rig, batch: Any) -> None:
    queue = rig.queue_of(max_receives=1)
    queue.push_many([{"id": name} for name in RESULTS])

    def handle(given: Any) -> Any:
        name = (given[0] if batch else given).id
        return RESULTS[name][0](name)

    rig.work(queue, handle, batch=batch, concurrency=3, start=False).drain()
    assert settled(queue)
    check_results(queue.dead_letters(100))


#: So that no message of a failed handler is ready again while a test looks.
SLOW = Backoff(base=300)


class Formats(logging.Handler):
    """Formats each record as `ackq work` does, and fails when that fails."""

    def emit(self, record: logging.LogRecord) -> None:
        TextFormatter().format(record)
        JsonFormatter().format(record)


@pytest.fixture
def formats() -> Iterator[logging.Handler]:
    log.addHandler(handler := Formats())
    log.propagate = False
    yield handler
    log.propagate = True
    log.removeHandler(handler)


@pytest.mark.parametrize("batch", [None, Batch(5, wait=0)], ids=["single", "batch"])
@pytest.mark.parametrize("detail", ["text", "traceback"])
def test_no_error_ends_a_slot_or_takes_a_neighbour_along(
    rig: Rig, batch: Any, detail: Any, formats: logging.Handler
) -> None:
    errors: dict[str, Any] = hostile()
    queue = rig.queue_of(max_receives=1, record_errors=detail)
    queue.push_many([{"id": id} for name in errors for id in (name, f"{name} neighbour")])
    handled: list[str] = []

    def handle(given: Any) -> None:
        messages = given if batch else [given]
        handled.extend(message.id for message in messages)
        named = {message: errors[message.id] for message in messages if message.id in errors}
        if named:
            raise Failed(named) if batch else next(iter(named.values()))

    work = rig.work(queue, handle, batch=batch, concurrency=4, log_errors=detail)
    slots = work.worker._state.slots
    wait_until(lambda: len(handled) == 2 * len(errors), "all", 60)
    wait_until(lambda: not queue.stats().in_flight and not queue.stats().ready, "settled", 60)
    stats = queue.stats()  # some are taken again by now
    assert stats.dead + stats.delayed + stats.ready + stats.in_flight == len(errors)
    alive = [getattr(slot.runner, "is_alive", lambda: True)() for slot in slots]
    assert alive == [True] * 4
    wait_until(lambda: not any(slot.message or slot.batch for slot in slots), "free slots")
    work.stop()
    work.join()


async def cancels_itself(message: ackq.Message) -> None:
    running().cancel()
    await asyncio.sleep(60)


async def swallows(message: ackq.Message) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await cancels_itself(message)


async def returns_first(message: ackq.Message) -> None:
    running().cancel()


async def is_cancelled(message: ackq.Message) -> None:
    asyncio.get_running_loop().call_later(0.1, running().cancel)
    await asyncio.sleep(60)


def running() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@pytest.mark.parametrize("batch", [None, Batch(1, wait=0)], ids=["single", "batch"])
@pytest.mark.parametrize("cancel", [cancels_itself, swallows, returns_first, is_cancelled])
def test_a_slot_goes_on_after_its_handler_s_task_was_cancelled(
    rig: Rig, cancel: Any, batch: Any
) -> None:
    async def handle(given: Any) -> None:
        message = given[0] if batch else given
        if message.id == "m0":
            await cancel(message)

    queue = rig.queue(3)
    rig.work(queue, handle, batch=batch, concurrency=1, backoff=SLOW)
    wait_until(lambda: not queue.stats().ready and not queue.stats().in_flight, "all", 5)
    if cancel is not returns_first:  # in a thread, its loop raises what it did not see
        assert queue.stats().delayed == (cancel is not swallows)


class Fails(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise SystemExit


class Broken(Hooks):
    """Each hook fails, and is logged."""

    taken = before = after = error = dead = raising(SystemExit)


def test_logs_and_hooks_that_fail_end_nothing(rig: Rig) -> None:
    def handle(message: ackq.Message) -> None:
        if message.id != "m2":
            raise OSError if message.id == "m0" else Reject

    log.addHandler(fails := Fails())
    try:
        queue = rig.queue(3)
        rig.work(queue, handle, concurrency=1, backoff=SLOW, hooks=Broken(), start=False).drain()
    finally:
        log.removeHandler(fails)
    stats = queue.stats()
    assert (stats.ready, stats.in_flight, stats.delayed, stats.dead) == (0, 0, 1, 1)


def test_a_handler_gets_a_message_of_its_own() -> None:
    names = [name for kind in (Message, Leased) for name in kind.__slots__]
    own = Message("q", b"a", b"{}", 1, 1)
    own.trace_id = "1"
    before = {name: getattr(own, name) for name in names}
    for meddle in MEDDLERS.values():
        meddle(Lent(own))
    before["lease_expires_at"] = 5.5  # what both share changes to what the worker can use
    assert {name: getattr(own, name) for name in names} == before


class Meddling(Hooks):
    """Changes each message as its id says, in every hook, and keeps those that were taken."""

    def taken(self, queue: str, messages: Any) -> None:
        for message in messages:
            self.before(message)
        messages.clear()

    def before(self, message: Message) -> None:
        MEDDLERS[message.id.partition(", fails")[0]](message)

    def after(self, message: Message, outcome: str, seconds: float) -> None:
        self.before(message)

    def error(self, message: Message, error: BaseException) -> None:
        self.before(message)


@pytest.mark.parametrize(
    ("batch", "hooks"),
    [(None, ()), (Batch(7, wait=0), ()), (None, Meddling())],
    ids=["single", "batch", "hooks"],
)
def test_a_handler_or_a_hook_that_changes_its_message_hurts_none(
    rig: Rig, batch: Any, hooks: Any
) -> None:
    def handle(given: Any) -> None:
        failed: dict[Message, BaseException] = {}
        for message in given if batch else [given]:
            name, fails, _ = message.id.partition(", fails")
            if not hooks:
                MEDDLERS[name](message)
            failed |= {message: OSError()} if fails else {}
        if failed:
            raise Failed(failed)

    names = [f"{name}{end}" for name in MEDDLERS for end in ("", ", fails")]
    queue = rig.queue_of()
    queue.push_many([{"id": name} for name in names])
    settings = {"batch": batch, "hooks": hooks, "concurrency": 3, "backoff": SLOW}
    rig.work(queue, handle, **settings, start=False).drain()
    stats = queue.stats()
    assert (stats.ready, stats.in_flight, stats.dead) == (0, 0, 0)
    delayed = {message.id for message in queue.peek(len(names), "delayed")}
    assert delayed == {name for name in names if name.endswith("fails")}


def test_a_lent_message_is_the_worker_s_own_to_a_dict_and_a_pickle() -> None:
    own = Message("q", b"a", b"{}", 1, 1, (1.0, None, None))
    lent = Lent(own)
    messages: list[Message] = [own, lent, Lent(own)]
    assert [set(messages), {lent}] == [{own}, {lent}] == [{lent}, set(messages)]
    assert lent != Message("q", b"a", b"{}", 1, 1)
    copied = pickle.loads(pickle.dumps(lent))
    assert (type(copied), copied.key, copied.taken_at) == (Message, b"a", 1.0)


class Raises(Backoff):
    def delay(self, receive_count: int, chance: float) -> float:
        raise SystemExit


class Text(Backoff):
    def delay(self, receive_count: int, chance: float) -> Any:
        return "60"


class Unset(Release):
    """Does not call the constructor of its base."""

    def __init__(self) -> None:
        pass


class Mutated(Again):
    def __init__(self) -> None:
        super().__init__(60)
        self.delay = "60"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"backoff": Raises()}, OSError("why")),
        ({"backoff": Text()}, OSError("why")),
        ({"terms": Terms(backoff=Raises())}, OSError("why")),
        ({"terms": Terms(is_final=lambda error: 1 / 0)}, OSError("why")),  # type: ignore[arg-type, return-value]
        ({}, Mutated()),
    ],
    ids=["raises", "text", "of a message", "is_final", "verdict"],
)
def test_where_the_user_s_rules_fail_the_default_backoff_applies(
    rig: Rig, caplog: pytest.LogCaptureFixture, setting: Any, error: Exception
) -> None:
    queue = rig.queue(2)
    terms, settings = setting.get("terms"), {**setting}
    settings.pop("terms", None)

    def handle(message: ackq.Message) -> None:
        message.terms = terms
        counts.append((message.id, message.receive_count))
        if counts[-1] == ("m0", 1):
            raise error

    counts: list[tuple[str, int]] = []
    rig.work(queue, handle, concurrency=1, **settings)
    wait_until(lambda: settled(queue), "the second delivery")
    assert counts == [("m0", 1), ("m1", 1), ("m0", 2)]
    assert "the default backoff applies" in caplog.text
    assert ("failed queue=" in caplog.text) == isinstance(error, OSError)  # it is recorded too


def test_a_verdict_of_the_user_s_own_may_leave_out_its_base(rig: Rig) -> None:
    queue = rig.queue(1)
    errors = iter([Unset()])

    def handle(message: ackq.Message) -> None:
        rig.handler.seen.append(str(message.receive_count))
        if (error := next(errors, None)) is not None:
            raise error

    rig.work(queue, handle, concurrency=1)
    wait_until(lambda: settled(queue), "the second delivery")
    assert rig.handler.seen == ["1", "1"]


GROUPS: list[tuple[BaseException, tuple[int, int, int]]] = [
    # The numbers of messages that are ready, delayed and dead afterwards.
    (ExceptionGroup("", [Reject("one")]), (0, 0, 1)),
    (ExceptionGroup("", [OSError(), ExceptionGroup("", [Reject("one"), OSError()])]), (0, 0, 1)),
    (BaseExceptionGroup("", [SystemExit(), Release(60)]), (0, 1, 0)),
    (ExceptionGroup("", [Reject("one"), Release(60)]), (0, 0, 1)),
    (ExceptionGroup("", [Release(60), Reject("one")]), (0, 1, 0)),
    (ExceptionGroup("", [OSError()]), (0, 1, 0)),
]


@pytest.mark.parametrize("batch", [None, Batch(1, wait=0)], ids=["single", "batch"])
@pytest.mark.parametrize(("group", "left"), GROUPS, ids=repr)
def test_a_group_of_errors_counts_as_its_first_verdict(
    rig: Rig, group: BaseException, left: tuple[int, int, int], batch: Any
) -> None:
    queue = rig.queue(1)

    def handle(given: Any) -> None:
        raise group

    rig.work(queue, handle, batch=batch, backoff=SLOW, start=False).drain()
    stats = queue.stats()
    assert (stats.ready, stats.delayed, stats.dead) == left


def test_a_group_of_failed_acks_no_message_that_none_of_them_names(rig: Rig) -> None:
    acked: list[str] = []

    async def half(messages: list[ackq.Message], failed: str) -> None:
        for message in messages:
            if message.id == failed:
                raise Failed({message: Reject(message.id)})
            await asyncio.sleep(0.01)  # where the other half is cancelled
            acked.append(message.id)

    async def handle(messages: list[ackq.Message]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(half(messages[:2], "m0"))
            group.create_task(half(messages[2:], "m0"))

    queue = rig.queue(4)
    rig.work(
        queue, handle, batch=Batch(4, wait=5), concurrency=1, backoff=SLOW, start=False
    ).drain()
    assert [letter.reason for letter in queue.dead_letters()] == ["m0"]
    assert (sorted(message.id for message in queue.peek(9, "delayed")), acked) == (
        ["m1", "m2", "m3"],
        [],
    )


def test_a_failed_that_names_a_stranger_fails_the_whole_batch(rig: Rig) -> None:
    other = ackq.Message("q", b"stranger", b"{}", 1, 1)

    def handle(messages: list[ackq.Message]) -> None:
        raise Failed({messages[0]: Reject("mine"), other: ValueError()})

    queue = rig.queue(3)
    rig.work(
        queue, handle, batch=Batch(3, wait=5), concurrency=1, backoff=SLOW, start=False
    ).drain()
    assert [letter.reason for letter in queue.dead_letters()] == ["mine"]
    failures = [message.errors[0].text for message in queue.peek(9, "delayed")]
    assert len(failures) == 2
    assert all("'stranger', which is not in this batch" in text for text in failures)


@pytest.mark.parametrize("wrong", [None, "text", Failed({})], ids=repr)
def test_a_failed_that_was_changed_is_checked_again(rig: Rig, wrong: Any) -> None:
    def handle(messages: list[ackq.Message]) -> None:
        failed = Failed({})
        failed.errors[messages[0]] = wrong
        raise failed

    queue = rig.queue(1)
    rig.work(queue, handle, batch=Batch(1, wait=0), backoff=SLOW, start=False).drain()
    assert queue.stats().delayed == 1


def test_a_failed_of_a_single_message_decides_about_it(rig: Rig) -> None:
    def handle(message: ackq.Message) -> None:
        raise Failed({message: Reject("why")} if message.id == "m0" else {})

    queue = rig.queue(2)
    rig.work(queue, handle, start=False).drain()
    assert [letter.id for letter in queue.dead_letters()] == ["m0"]
    assert settled(queue)


MESSAGE = ackq.Message("q", b"a", b"{}", 1, 1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Failed({"a-1": ValueError()}), r"Failed\(\{message: error\}\), not 'a-1'"),  # type: ignore[dict-item]
        (lambda: Failed({MESSAGE: None}), "not None"),  # type: ignore[dict-item]
        (lambda: Failed({MESSAGE: "text"}), "not 'text'"),  # type: ignore[dict-item]
        (lambda: Failed({MESSAGE: ValueError}), "not <class 'ValueError'>"),  # type: ignore[dict-item]
        (lambda: Failed({MESSAGE: Failed({})}), "takes an exception for each message"),
        (lambda: Release("60"), r"not '60': convert .* with float\(…\)"),  # type: ignore[arg-type]
        (lambda: Release(b"60"), r"with float\(…\)"),  # type: ignore[arg-type]
        (lambda: Release(9, group="c-17"), r"\(group\) is True or False, not 'c-17': the group"),  # type: ignore[arg-type]
        (lambda: Release(None), r"Release\(delay\) is 0 or more seconds, not None$"),  # type: ignore[arg-type]
        (lambda: Release(-1.5), "not -1.5"),
        (lambda: Release(True), "not True"),
        (lambda: Release(float("nan")), "not nan"),
        (lambda: Again("60"), r"Again\(delay\) .*with float\(…\)"),  # type: ignore[arg-type]
        (lambda: Again(-1), "not -1"),
        (lambda: Terms(max_receives="3"), "terms.max_receives is an integer"),  # type: ignore[arg-type]
        (lambda: Terms(time_limit="3"), "terms.time_limit is"),  # type: ignore[arg-type]
        (lambda: Terms(backoff=5), "terms.backoff is a Backoff, such as"),  # type: ignore[arg-type]
        (lambda: Terms(is_final=True), "terms.is_final is a function or None, not True"),  # type: ignore[arg-type]
        (lambda: Terms(is_final=is_cancelled), "terms.is_final is asynchronous"),  # type: ignore[arg-type]
        (lambda: Schedule("s", swallows, every=1), "message of schedule 's' is asynchronous"),  # type: ignore[arg-type]
        (lambda: Schedule("s", generates, every=1), "message of schedule 's' has a yield"),  # type: ignore[arg-type]
        (lambda: Terms(record_errors="all"), "record_errors"),  # type: ignore[arg-type]
        (lambda: Backoff(factor="2"), "backoff.factor is a number, not '2'"),  # type: ignore[arg-type]
    ],
)
def test_what_would_fail_later_is_refused_where_it_is_written(make: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()


@pytest.mark.parametrize("name", ["handler", "batch_handler"])
@pytest.mark.parametrize(
    ("handler", "text"),
    [(generates, "has a yield"), (generates_async, "has a yield"), (Handler, r"as in Handler\(\)")],
)
def test_a_handler_whose_call_runs_nothing_is_refused(
    rig: Rig, handler: Any, text: str, name: str
) -> None:
    settings = {"handler": print, name: handler}
    with pytest.raises(ConfigurationError, match=f"{name} .*{text}"):
        rig.work(rig.queue_of(), settings.pop("handler"), start=False, **settings)


def test_an_error_of_an_earlier_delivery_is_no_cause_of_a_reject(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    queue = rig.queue(1)

    def handle(message: ackq.Message) -> None:
        if message.receive_count == 1:
            raise OSError("older")
        raise Reject("no such file")

    rig.work(queue, handle, backoff=Backoff(base=0), concurrency=1)
    wait_until(lambda: 'reason="no such file"' in caplog.text, "the log line")
    (letter,) = queue.dead_letters()
    assert (letter.cause, letter.errors[-1].text) == ("no such file", "older")
    assert _reason_of(letter) == "no such file"


def test_a_reason_and_its_cause_do_not_name_an_error_twice() -> None:
    error = Failure(1, 0.0, "app.errors.Declined", "", "app.py:7 in handle")
    for reason, shown in (
        ("not retried: Declined", "not retried: app.errors.Declined at app.py:7 in handle"),
        ("max receives", "max receives: app.errors.Declined at app.py:7 in handle"),
    ):
        letter = ackq.DeadLetter("1-0", "a", b"{}", reason, 1, 0.0, (error,))
        assert _reason_of(letter) == shown


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (returns_first, "hook Odd.after is asynchronous"),
        (generates, "hook Odd.after has a yield"),
        (generates_async, "hook Odd.after has a yield"),
        (5, "hook Odd.after must be callable"),
    ],
)
def test_a_hook_whose_call_runs_nothing_is_refused(rig: Rig, method: Any, text: str) -> None:
    hook = type("Odd", (Hooks,), {"after": method})()
    with pytest.raises(ConfigurationError, match=text):
        rig.work(rig.queue_of(), print, hooks=[Hooks(), hook], start=False)


class Unhashable:
    __hash__: Any = raising(RuntimeError)

    def __call__(self) -> None:
        """Only named in terms."""


@pytest.mark.parametrize(
    "terms", [5, {"max_receives": 1}, Terms(function=Unhashable())], ids=["5", "dict", "terms"]
)
def test_terms_that_are_none_fail_where_they_are_written(rig: Rig, terms: Any) -> None:
    queue = rig.queue(1, max_receives=1)

    def handle(message: ackq.Message) -> None:
        message.terms = terms
        raise OSError("why")

    rig.work(queue, handle, time_limit=60, start=False).drain()
    (letter,) = queue.dead_letters()
    refused = f"message.terms is a Terms or None, not {terms!r}"
    assert letter.errors[-1].text == ("why" if isinstance(terms, Terms) else refused)


def test_an_error_that_hides_its_traceback_has_a_place() -> None:
    error = hostile()["Exception-__traceback__-0"]
    try:
        raise error
    except BaseException as raised:
        described = describe(raised)
    assert described.place.startswith(f"{__file__}:")
