"""Tasks are pushed, taken and called; what they return or raise settles their messages."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import orjson
import pytest
import redis
from click.testing import CliRunner
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ackq.otel
from ackq import Groups, Message, Queue
from ackq.cli import main
from ackq.core.creation_time import created_at
from ackq.errors import ConfigurationError
from ackq.tasks import (
    AsyncTasks,
    Backoff,
    Breaker,
    Failed,
    InvalidArguments,
    Later,
    Reject,
    Retry,
    State,
    Tasks,
    injected,
)
from ackq.tasks.wire import received
from ackq.worker import Again, Health, RateLimit
from tests.metrics.test_collector import value
from tests.tasks.conftest import Rig
from tests.waiting import wait_until
from tests.worker.test_figures import scraped

SEEN: ContextVar[str] = ContextVar("seen", default="")


def test_a_task_is_an_ordinary_function_and_is_called_with_what_was_pushed(rig: Rig) -> None:
    calls = []

    @rig.tasks.task
    def resize(path: str, width: int = 80) -> str:
        """Resize a picture."""
        calls.append((path, width))
        return path

    @rig.tasks.task(name="fetch")
    async def fetch(url: str, *, tries: int = 1) -> None:
        await asyncio.sleep(0)
        calls.append((url, tries))

    assert resize("here") == "here"
    assert inspect.unwrap(resize).__name__ == "resize"
    assert resize.__doc__ == "Resize a picture."
    assert calls.pop() == ("here", 80)
    pushed = rig.push(resize, "a.png", width=40)
    assert pushed.stored
    rig.push(fetch, "u", tries=3)
    rig.push(resize, path="b.png")
    name = (
        f"{__name__}.test_a_task_is_an_ordinary_function_and_is_called_with_what_was_pushed.resize"
    )
    assert orjson.loads(rig.queue.peek(1)[0].body) == {
        "id": pushed,
        "task": name,
        "args": {"path": "a.png", "width": 40},
    }
    rig.drain()
    assert sorted(calls) == [("a.png", 40), ("b.png", 80), ("u", 3)]
    assert rig.queue.stats().ready == rig.queue.stats().dead == 0


def test_options_reach_the_push(rig: Rig) -> None:
    ran: list[str] = []

    @rig.tasks.task(name="note", options={"delay": 3600})
    def note(text: str) -> None:
        ran.append(text)

    now = note.options(id="a-1", delay=0.0)
    assert rig.push(now, "now") == "a-1"
    rig.push(note, "later")
    once = note.options(delay=0).options(dedup="one")
    assert [rig.push(once, "once").stored for _ in range(2)] == [True, False]
    alone = note.options(delay=0, id="a-2", unique="done")
    assert [rig.push(alone, "unique").stored for _ in range(2)] == [True, False]
    wrong: dict[str, Any] = {"dely": 1}
    with pytest.raises(ConfigurationError, match="no setting 'dely': did you mean 'delay'"):
        note.options(**wrong)
    rig.drain()
    assert sorted(ran) == ["now", "once", "unique"]
    assert rig.queue.stats().delayed == 1


def test_a_cloudevent_is_a_task_too(rig_of: Callable[..., Rig]) -> None:
    rig = rig_of(source="//tests")
    ran = []

    @rig.tasks.task(name="org.example.note", expires=60)
    def note(text: str, message: Message = injected) -> None:
        ran.append((text, message.id))

    rig.push(note.options(id=7), "event")
    (peeked,) = rig.queue.peek(1)
    event = orjson.loads(peeked.body)
    # The id is text, as in the schema of these messages.
    of_event = event["specversion"], event["type"], event["source"], event["id"]
    assert of_event == ("1.0", "org.example.note", "//tests", "7")
    assert event["data"] == {"text": "event"}
    assert created_at(peeked.body, None) == pytest.approx(time.time(), abs=60)
    rig.queue.push({"id": "plain", "task": "org.example.note", "args": {"text": "plain"}})
    expired = {
        "specversion": "1.0",
        "type": "org.example.note",
        "expirytime": "2020-01-01T00:00:00Z",
    }
    rig.queue.push({**expired, "data": {"text": "never"}})
    encoded = {"specversion": "1.0", "type": "org.example.note", "data_base64": "eyJ0ZXh0IjoieCJ9"}
    rig.queue.push({"id": "bytes", **encoded})
    rig.queue.push({**encoded, "data_base64": "AAAA"})  # no JSON
    rig.drain()
    assert sorted(ran) == [("event", "7"), ("plain", "plain"), ("x", "bytes")]
    assert {reason.partition(":")[0] for reason in rig.reasons()} == {
        "expired",
        "JSON is malformed",
    }


MISFITS: list[tuple[Any, str]] = [
    (b"nonsense", "not a task: JSON is malformed"),
    (b"[1]", "not a task: Expected `object`, got `array`"),
    ({"args": {}}, "not a task: the message names none"),
    ({"type": "note", "data": {}}, "not a task: the message names none"),
    ({"task": 5}, "not a task: Expected `str`, got `int` - at `$.task`"),
    ({"task": "note"}, "Missing the argument `text`"),
    ({"task": "note", "args": {"text": 5}}, "Expected `str`, got `int` - at `$.text`"),
    ({"task": "note", "args": ["x"]}, "Expected `object`, got `array`"),
    (b'{"task": "note", "args": %b}' % (b"[" * 50_000 + b"]" * 50_000), "not a task: it is nested"),
    (
        {"task": "note", "args": {}, "expires_at": "soon"},
        "not a task: Expected `float | null`, got `str`",
    ),
    ({"specversion": "1.0", "type": 5}, "not a task: Expected `str`, got `int` - at `$.type`"),
]


def test_what_does_not_fit_is_dead_at_once_with_the_reason(rig: Rig) -> None:
    @rig.tasks.task(name="note")
    def note(text: str, message: Message = injected) -> None:
        raise AssertionError("it was called")

    for body, _ in MISFITS:
        rig.queue.push(body)
    rig.drain(concurrency=1)
    letters = rig.queue.dead_letters(20)
    for letter, (_, reason) in zip(letters, MISFITS, strict=True):
        assert reason in letter.reason
        assert letter.receive_count == 1
    with pytest.raises(InvalidArguments, match=r"Expected `str`, got `int` - at `\$.text`"):
        rig.push(note, 5)
    assert rig.queue.stats().ready == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"task": "of.tomorrow"}, "unknown task 'of.tomorrow' for 0.3 s"),
        ({"task": "note", "args": {"new": 1}}, "There is no argument `new` for 0.3 s"),
        ({"task": "note", "args": {"message": {}}}, "There is no argument `message` for 0.3 s"),
        (
            {"specversion": "1.0", "type": "note", "data": {"new": 1}},
            "There is no argument `new` for 0.3 s",
        ),
    ],
)
def test_an_unknown_task_or_argument_is_given_back_uncounted_and_dead_after_a_while(
    rig_of: Callable[..., Rig], body: dict[str, Any], reason: str
) -> None:
    def note(message: Message = injected) -> None:
        raise AssertionError("it was called")

    patient, hasty = rig_of(unknown_for=600), rig_of(unknown_for=0.3)
    for rig in (patient, hasty):
        rig.tasks.task(name="note")(note)
    patient.queue.push({"id": "a", **body})
    patient.drain()
    found = patient.queue.find("a")
    assert found is not None
    assert found.receive_count == 0
    assert found.due_in == pytest.approx(30, abs=20)
    patient.queue.run_now(ids=["a"])
    hasty.drain_until_dead()
    assert [letter.reason for letter in hasty.queue.dead_letters()] == [reason]


def test_each_exception_has_its_own_policy(rig: Rig) -> None:
    runs: dict[str, int] = {}

    @rig.tasks.task(
        name="fail",
        max_receives=3,
        retry=Retry(on=(OSError,), never=(ConnectionError,), delays=Backoff(base=0, limit=0)),
        record_errors="type",
    )
    def fail(kind: str) -> Any:
        runs[kind] = runs.get(kind, 0) + 1
        match kind:
            case "retried":
                raise OSError("secret")
            case "never":
                raise ConnectionResetError
            case "other":
                raise KeyError("secret")
            case "rejected":
                return Reject("no such user")
            case "asked":
                raise Again(0)
            case "later" if runs[kind] < 5:
                return Later(0)
            case "raised" if runs[kind] < 5:
                raise Later(0.0)

    kinds = ("retried", "never", "other", "rejected", "asked", "later", "raised")
    for kind in kinds:
        rig.push(fail.options(id=kind), kind)
    rig.drain_until_dead(5)
    assert runs == {**dict.fromkeys(kinds, 1), "retried": 3, "asked": 3, "later": 5, "raised": 5}
    letters = {letter.id: letter for letter in rig.queue.dead_letters()}
    assert {id: letter.reason for id, letter in letters.items()} == {
        "retried": "max receives",
        "never": "not retried: ConnectionResetError",
        "other": "not retried: KeyError",
        "rejected": "no such user",
        "asked": "max receives",
    }
    assert [failure.type for failure in letters["retried"].errors] == ["OSError"] * 3
    assert {failure.text for failure in letters["retried"].errors} == {""}
    assert "test_tasks.py" in letters["retried"].errors[0].place


def test_a_task_may_be_received_more_often_than_its_queue_says(rig: Rig) -> None:
    runs: list[str] = []
    retry = Retry(delays=Backoff(base=0, limit=0))

    @rig.tasks.task(name="often", max_receives=5, retry=retry)
    def often() -> None:
        runs.append("often")
        raise OSError

    @rig.tasks.task(name="usual", retry=retry)
    def usual() -> None:
        runs.append("usual")
        raise OSError

    rig.push(often)
    rig.push(usual)
    rig.drain_until_dead(2, max_receives=2)
    assert (runs.count("often"), runs.count("usual")) == (5, 2)


def test_a_task_has_a_time_limit_of_its_own(rig: Rig) -> None:
    flags: list[bool] = []

    @rig.tasks.task(name="slow", time_limit=0.05, max_receives=1)
    async def slow() -> None:
        await asyncio.sleep(30)

    @rig.tasks.task(name="stubborn", time_limit=0.05, max_receives=1)
    def stubborn(message: Message = injected) -> None:
        wait_until(lambda: message.timed_out and flags, "the time limit, and the free task")
        flags.append(rig.queue.stats().dead < 2)  # it is settled when it has ended

    @rig.tasks.task(name="free")
    async def free() -> None:
        await asyncio.sleep(0.3)
        flags.append(False)

    for task in (slow, stubborn, free):
        rig.push(task)
    rig.drain()
    assert sorted(flags) == [False, True]
    assert rig.reasons() == ["max receives"] * 2
    assert {letter.errors[0].type for letter in rig.queue.dead_letters()} == {"TimeoutError"}


def test_expired_messages_are_dead_or_dropped(rig: Rig) -> None:
    ran: list[str] = []

    @rig.tasks.task(name="dead", expires=60)
    def dead(text: str) -> None:
        ran.append(text)

    @rig.tasks.task(name="drop", expires=60, on_expiry="drop")
    def drop(text: str) -> None:
        ran.append(text)

    rig.push(dead, "in time")
    rig.push(drop.options(expires=3600), "in time too")
    for task in (dead, drop):
        rig.push(task.options(expires=0.0), "late")
    rig.queue.push({"task": "drop", "args": {"text": "of 1970"}, "expires_at": 0})
    rig.drain()
    assert sorted(ran) == ["in time", "in time too"]
    assert rig.reasons() == ["expired"]


def test_a_message_expires_after_the_time_for_which_it_was_delayed(
    rig_of: Callable[..., Rig],
) -> None:
    for source, member in ((None, "expires_at"), ("//tests", "expirytime")):
        rig = rig_of(source=source)

        @rig.tasks.task(name="note", expires=100)
        def note() -> None:
            """Nothing."""

        now = time.time()
        cases: list[tuple[dict[str, Any], float]] = [
            ({"delay": 0}, 100),
            ({"delay": 2000}, 2100),
            ({"delay": timedelta(hours=1), "expires": timedelta(minutes=1)}, 3660),
            ({"at": now + 500}, 600),
            ({"at": datetime.fromtimestamp(now + 500, UTC), "expires": 1}, 501),
            ({"at": now - 500}, 100),  # due at once
        ]
        for number, (options, seconds) in enumerate(cases):
            id = f"{member}-{number}"
            rig.push(note.options(id=id, **options))
            found = rig.queue.find(id)
            assert found is not None
            written = orjson.loads(found.body)[member]
            if source is not None:
                written = datetime.fromisoformat(written).timestamp()
            assert written - now == pytest.approx(seconds, abs=10)


def test_an_expiry_time_without_a_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        body = {"specversion": "1.0", "type": "note", "expirytime": "2026-05-04T12:00:00"}
        read = [
            received(orjson.dumps({**body, "expirytime": body["expirytime"] + zone}))
            for zone in ("", "Z", "+00:00")
        ]
    finally:
        monkeypatch.undo()
        time.tzset()
    noon = datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp()
    assert [each.expires_at for each in read] == [noon] * 3


def test_a_message_with_a_task_is_no_cloudevent_whatever_its_other_members_are(rig: Rig) -> None:
    ran: list[str] = []

    @rig.tasks.task(name="note")
    def note(text: str) -> None:
        ran.append(text)

    others = {"specversion": 1, "type": 5, "data": [1], "expirytime": "next week", "id": "a"}
    rig.queue.push({**others, "task": "note", "args": {"text": "ran"}})
    rig.drain()
    assert ran == ["ran"]


def test_after_failures_in_a_row_a_task_pauses_uncounted(rig: Rig) -> None:
    runs: list[int] = []

    @rig.tasks.task(
        name="call",
        breaker=Breaker(failures=2, pause=3600),
        retry=Retry(delays=Backoff(base=0, limit=0)),
    )
    def call(number: int) -> None:
        runs.append(number)
        raise OSError

    for number in range(5):
        rig.push(call.options(id=number), number)
    rig.drain(concurrency=1)
    assert len(runs) == 2
    delayed = [rig.queue.find(str(number)) for number in range(5)]
    assert sum(each.receive_count for each in delayed if each is not None) == 2
    assert min(each.due_in or 0 for each in delayed if each is not None) > 3000


def test_middleware_surrounds_the_task_and_the_push(rig: Rig) -> None:
    order: list[str] = []

    def noting(word: str) -> Callable[[Any], Any]:
        @contextlib.contextmanager
        def block(message: Any) -> Iterator[None]:
            order.append(f"{word} {message.receive_count if word != 'push' else message['task']}")
            if word == "push":
                message["tenant"] = "c-17"
            try:
                yield
            finally:
                order.append(f"end of {word}")

        return block

    rig.middleware(rig.tasks.middleware, noting("outer"))
    rig.middleware(rig.tasks.middleware, noting("inner"))
    rig.middleware(rig.tasks.push_middleware, noting("push"))

    @rig.tasks.task(name="plain")
    def plain(text: str, message: Message = injected) -> None:
        order.append(message.json()["tenant"])
        raise Reject("why")

    @rig.tasks.task(name="awaits")
    async def awaits(text: str) -> None:
        await asyncio.sleep(0)
        order.append(text)

    around = ["outer 1", "inner 1", "end of inner", "end of outer"]
    for task, inside in ((plain, "c-17"), (awaits, "text")):
        rig.push(task, "text")
        assert order == [f"push {task.name}", "end of push"]
        order.clear()
        rig.drain()
        assert order == [*around[:2], inside, *around[2:]]
        order.clear()
    assert rig.reasons() == ["why"]


class Pool:
    """What a lifespan yields."""


def test_the_lifespan_surrounds_all_messages_and_its_state_reaches_tasks(
    rig_of: Callable[..., Rig], flavour: str
) -> None:
    events: list[Any] = []
    pool = Pool()

    @contextlib.contextmanager
    def life() -> Iterator[Any]:
        events.append("begin")
        yield {"pool": pool, "number": 5}
        events.append("end")

    @contextlib.asynccontextmanager
    async def async_life() -> Any:
        with life() as state:
            yield state

    for lifespan in (life, async_life) if flavour == "async" else (life,):
        rig = rig_of(lifespan=lifespan)

        @rig.tasks.task(name="use")
        def use(text: str, pool: State[Pool] = injected, number: State[int] = injected) -> None:
            events.append((text, pool, number))

        with pytest.raises(TypeError, match="pass it"):
            use("here")
        use("here", Pool(), 3)
        with pytest.raises(InvalidArguments, match="the worker fills in 'number'"):
            rig.push(use, "x", number=3)
        events.clear()
        rig.push(use, "there")
        rig.drain()
        assert events == ["begin", ("there", pool, 5), "end"]
        assert rig.tasks.state is None
        events.clear()


def test_the_state_itself_fits_by_its_type(rig_of: Callable[..., Rig]) -> None:
    pool, seen = Pool(), []
    rig = rig_of(lifespan=lambda: contextlib.nullcontext(pool))

    @rig.tasks.task(name="use")
    async def use(connections: State[Pool] = injected) -> None:
        seen.append(connections)

    rig.push(use)
    rig.drain()
    assert seen == [pool]


def test_a_thread_or_task_has_a_new_context_for_each_message(rig: Rig) -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def remember(message: Message) -> Iterator[None]:
        seen.append(SEEN.get())
        SEEN.set("by middleware")
        yield

    rig.middleware(rig.tasks.middleware, remember)

    @rig.tasks.task(name="plain")
    def plain() -> None:
        seen.append(SEEN.get())
        SEEN.set("by a task")

    @rig.tasks.task(name="awaits")
    async def awaits() -> None:
        plain()
        await asyncio.sleep(0)
        assert SEEN.get() == "by a task"

    for task in (plain, awaits) * 3:
        rig.push(task)
    rig.drain(concurrency=1)
    assert seen == ["", "by middleware"] * 6
    assert rig.queue.stats().delayed == 0


def test_a_plain_function_has_a_thread_on_asyncio(rig: Rig) -> None:
    both = threading.Barrier(2, timeout=20)

    @rig.tasks.task(name="meet")
    def meet() -> None:
        both.wait()

    for _ in range(2):
        rig.push(meet)
    rig.drain(concurrency=2)
    assert rig.queue.stats().delayed == 0


def test_a_rate_limit_holds_for_the_queue_of_its_task(rig: Rig, token: str) -> None:
    ran: list[float] = []

    @rig.tasks.task(name="mail", queue=f"{token}-mail", rate_limit=RateLimit(10, per=1, burst=1))
    def mail() -> None:
        ran.append(time.monotonic())

    @rig.tasks.task(name="note")
    def note() -> None:
        """Nothing."""

    for _ in range(4):
        rig.push(mail)
    rig.push(note)
    rig.drain()
    assert len(ran) == 4
    lanes = {lane.queue.name: lane.limit for lane in rig.tasks.worker()._state.lanes}
    assert lanes == {f"{token}-mail": RateLimit(10, per=1, burst=1), token: None}
    with pytest.raises(ConfigurationError, match="'mail' has a rate limit, so it needs a queue"):
        rig.tasks.task(name="other", queue=f"{token}-mail")(_first)


def test_the_rate_limit_of_a_worker_is_for_queues_whose_tasks_have_none(
    rig: Rig, token: str
) -> None:
    rig.tasks.task(name="mail", queue=f"{token}-mail", rate_limit=RateLimit(10))(_first)
    rig.tasks.task(name="note")(_first)
    lanes = rig.tasks.worker(rate_limit=RateLimit(3))._state.lanes
    assert {lane.queue.name: lane.limit for lane in lanes} == {
        f"{token}-mail": RateLimit(10),
        token: RateLimit(3),
    }


@dataclass
class Row:
    """What is pushed to a batch task."""

    number: int


def test_a_batch_task_gets_a_list_of_checked_arguments(rig: Rig, token: str, url: str) -> None:
    batches: list[Any] = []
    around: list[int] = []

    @contextlib.contextmanager
    def count(message: Message) -> Iterator[None]:
        around.append(message.receive_count)
        yield

    rig.middleware(rig.tasks.middleware, count)

    @rig.tasks.batch(size=3, wait=5, queue=f"{token}-rows", name="store")
    def store(rows: list[Row], messages: list[Message] = injected) -> None:
        batches.append(([row.number for row in rows], [message.id for message in messages]))

    @rig.tasks.batch(size=2, wait=5, queue=f"{token}-texts", name="embed")
    async def embed(texts: list[str]) -> int:
        await asyncio.sleep(0)
        batches.append(texts)
        return len(texts)

    @rig.tasks.task(name="one")
    def one(text: str) -> None:
        batches.append(text)

    for number in range(2):
        rig.push(store.options(id=f"m{number}"), Row(number))
        rig.push(embed, f"text {number}")
    rig.push(one, "alone")
    with Queue.from_url(url, f"{token}-rows") as rows:
        assert orjson.loads(rows.peek(1)[0].body)["args"] == {"rows": {"number": 0}}
        rows.push({"task": "store", "args": {"rows": {"number": "wrong"}}})
        rows.push({"task": "one", "args": {"text": "here"}})
        rig.push(store.options(id="m2"), Row(2))
        rig.push(store.options(expires=0.0), Row(3))
        with pytest.raises(InvalidArguments, match=r"Expected `int`, got `str`"):
            rig.push(store, Row("x"))  # type: ignore[arg-type]
        rig.drain(concurrency=3)
        reasons = [letter.reason for letter in rows.dead_letters()]
        for part in ("got `str` - at `$.rows.number`", "the queue of task 'one' is", "expired"):
            assert sum(part in reason for reason in reasons) == 1, reasons
        assert rows.stats().ready == rows.stats().delayed == 0
    assert "alone" in batches
    assert ["text 0", "text 1"] in batches
    assert sorted(n for each in batches if isinstance(each, tuple) for n in each[0]) == [0, 1, 2]
    assert sorted(n for each in batches if isinstance(each, tuple) for n in each[1]) == [
        "m0",
        "m1",
        "m2",
    ]
    assert set(around) == {1}
    assert (store.definition.queue, asyncio.run(embed(["here"]))) == (f"{token}-rows", 1)


def test_only_some_messages_of_a_batch_task_fail(rig: Rig, token: str) -> None:
    seen: list[list[int]] = []

    @rig.tasks.batch(size=4, wait=5, queue=token, name="store", max_receives=2)
    def store(numbers: list[int], messages: list[Message] = injected) -> Failed | None:
        seen.append(numbers)
        errors = {1: Reject("why"), 2: OSError("down"), 3: Again(0)}
        failed = {
            message: errors[number]
            for number, message in zip(numbers, messages, strict=True)
            if number in errors
        }
        if len(numbers) > 1:
            raise Failed(failed)
        return Failed(failed)

    for number in range(4):
        rig.push(store.options(id=number), number)
    rig.drain_until_dead(3)
    assert seen[0] == [0, 1, 2, 3]
    assert sorted(seen[1:]) == [[2], [3]]  # the last delivery is alone
    letters = {letter.id: letter.reason for letter in rig.queue.dead_letters()}
    assert letters == {"1": "why", "2": "max receives", "3": "max receives"}


def test_a_message_over_the_limit_of_its_task_runs_alone(rig: Rig) -> None:
    counts: list[tuple[str, int]] = []
    running: list[str] = []
    beside: dict[str, int] = {}

    def run(message: Message) -> None:
        running.append(message.id)
        time.sleep(0.01)
        beside[message.id] = len(running)
        running.remove(message.id)
        counts.append((message.id, message.receive_count))

    @rig.tasks.task(name="few", max_receives=1)
    def few(message: Message = injected) -> None:
        run(message)

    @rig.tasks.task(name="many", max_receives=20)
    def many(message: Message = injected) -> None:
        run(message)

    rig.push(many.options(id="m"))
    for number in range(3):
        rig.push(few.options(id=number))
    taken = rig.queue.pop_many(4, visibility_timeout=0.001)  # by a worker that died
    assert len(taken) == 4
    wait_until(lambda: rig.queue.stats().expired == 4, "the end of the leases")
    rig.push(few.options(id=3))
    rig.drain(concurrency=8)
    assert sorted(counts) == [("0", 2), ("1", 2), ("2", 2), ("3", 1), ("m", 2)]
    assert [beside[id] for id in "012"] == [1, 1, 1]
    assert rig.queue.stats().dead == 0


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda tasks: tasks.task(lambda *paths: None), "no name in a message"),
    (lambda tasks: tasks.task(lambda **paths: None), "no name in a message"),
    (lambda tasks: Retry(on=OSError), "tuple of exceptions"),  # type: ignore[arg-type]
    (lambda tasks: Retry(never=("x",)), "tuple of exceptions"),  # type: ignore[arg-type]
    (lambda tasks: tasks.worker(), "there are no tasks"),
    (lambda tasks: tasks.batch()(_first) and tasks.worker(), "a batch task has one parameter"),
    (lambda tasks: tasks.batch()(_row) and tasks.worker(), "a batch task has one parameter"),
    (lambda tasks: [tasks.batch(queue="q")(_rows), tasks.task(queue="q")(_first)], "gets batches"),
    (lambda tasks: [tasks.task(queue="q")(_first), tasks.batch(queue="q")(_rows)], "gets batches"),
    (lambda tasks: [tasks.task(name="same")(f) for f in (_first, _later)], "two functions"),
    (lambda tasks: tasks.middleware(print if isinstance(tasks, AsyncTasks) else _later), "is a"),
    (lambda tasks: type(tasks)("nowhere"), "URL"),
    (lambda tasks: tasks.task(retry=3)(_first), r"retry is a Retry, such as Retry\(on=\(OSError,"),
    (lambda tasks: tasks.task(retry=(OSError,))(_first), "retry is a Retry, such as"),
    (lambda tasks: tasks.task(breaker=5)(_first), r"a Breaker, such as Breaker\(failures=5, pau"),
    (lambda tasks: tasks.task(rate_limit=5)(_first), r"such as RateLimit\(100, per=60\), or None"),
    (lambda tasks: tasks.task(options={"dely": 1})(_first), "'dely': did you mean 'delay'"),
    (lambda tasks: tasks.task(_first).options(dely=5), "'dely': did you mean 'delay'"),
    (lambda tasks: tasks.task(_first).options(unique="dne"), "unique is 'done' or 'taken' or None"),
    (lambda tasks: tasks.task(_first).options(delay=5).options(at=5), "delay or at, not both"),
    (lambda tasks: tasks.task(_first).options(id=""), "id is text of 1 to 512 bytes"),
    (lambda tasks: tasks.task("images.resize")(_first), r"by name, as in @tasks.task\(name="),
    (lambda tasks: tasks.task(name=5)(_first), "name is text or None, not 5"),
    (lambda tasks: tasks.task(name="x" * 201)(_first), "name is text of 1 to 200 characters"),
    (lambda tasks: tasks.task(queue="")(_first), "queue name '' is empty"),
    (lambda tasks: tasks.task(queue="aDEAD")(_first), "'aDEAD' ends in DEAD"),
    (lambda tasks: tasks.batch(name="a*")(_rows), r"queue name 'a\*' contains"),
    (lambda tasks: tasks.task(name="\ud800")(_first), "name is text"),
    (lambda tasks: tasks.task(batch=5)(_rows), "no setting 'batch'"),
    (lambda tasks: tasks.task(function=5)(_first), "no setting 'function'"),
    (lambda tasks: tasks.schedule("@daily", name="")(tasks.task(_first)), "cannot be named ''"),
    (lambda tasks: type(tasks)(None, queue=""), "queue name '' is empty"),
    *(
        (partial(lambda source, tasks: Tasks(None, source=source), source), "source is a URI")
        for source in ("", "my shop", "\ud800", "shop\n")
    ),
    *(
        (partial(lambda given, tasks: tasks.task(_first).options(**given), given), text)
        for given, text in (
            ({"dedup": ""}, "dedup is 1 to 512"),
            ({"dedup": "\ud800"}, "dedup is 1 to 512"),
            ({"dedup": "a", "unique": "done"}, "dedup or unique, not both"),
            ({"dedup": "a", "unique_by": ["task"]}, "dedup or unique, not both"),
            ({"unique_by": [""]}, "unique_by is a list of fields"),
            ({"group": ""}, "group is a text"),
            ({"group": 2**53}, "group is a text"),
            ({"confirm": 0}, "confirm asks for nothing"),
        )
    ),
    (lambda tasks: tasks.task(functools.partial(_row, 1)), "wrap a partial, a class or an object"),
    (lambda tasks: tasks.task(Row), "wrap a partial, a class or an object in a def"),
    (lambda tasks: tasks.task(_Callable()), "wrap a partial, a class or an object in a def"),
    (lambda tasks: tasks.task(tasks.task(name="once")(_first)), "'once' is a task already"),
    (lambda tasks: tasks.schedule(tasks.task(_first)), "cron is text or None, not <"),
    (lambda tasks: tasks.schedule(every=5)(_first), "goes above @tasks.task"),
    (lambda tasks: tasks.schedule(evry=5), "'evry': did you mean 'every'"),
    (lambda tasks: [tasks.task(each) for each in _same()], "two functions are the task"),
    (lambda tasks: tasks.task(_first) and tasks.worker(conurrency=5), "did you mean 'concurrency'"),
]


class _Callable:
    def __call__(self) -> None:
        """No task: it has no name."""


def _same() -> Iterator[Any]:
    """Yield two functions of one name."""

    def same() -> None:
        """The first."""

    yield same

    def same() -> None:  # type: ignore[no-redef]
        """The second."""

    yield same


def test_a_function_that_is_defined_again_replaces_itself(rig: Rig) -> None:
    """As in a reload, or in a cell of a notebook that runs twice."""
    ran: list[int] = []

    def define(number: int) -> Any:
        @rig.tasks.task(name="again")
        def again() -> None:
            ran.append(number)

        return again

    define(1)
    rig.push(define(2))
    rig.drain()
    assert ran == [2]


def test_each_worker_has_its_own_limit_of_deliveries(rig: Rig) -> None:
    def fail() -> None:
        raise OSError

    def define(name: str, **settings: Any) -> None:
        rig.push(rig.tasks.task(name=name, **settings)(fail).options(id=name))

    define("usual")
    define("less", max_receives=1)
    define("more", max_receives=4)
    first, _ = (rig.worker(max_receives=limit, backoff=Backoff(base=0)) for limit in (3, 2))
    rig.run(first, drain=True)
    dead = {letter.id: letter.receive_count for letter in rig.queue.dead_letters()}
    assert dead == {"usual": 3, "less": 1, "more": 4}


def _first() -> None:
    """A task."""


def _row(row: int) -> None:
    """It gets no list."""


def _rows(rows: list[int]) -> None:
    """A batch task."""


async def _later(message: Message, call: Any) -> None:
    """Middleware for the other flavour."""


def test_what_operators_read_names_the_task(
    rig: Rig, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    @rig.tasks.task(name="shop.pay", max_receives=1)
    def pay(amount: int) -> None:
        raise OSError("down")

    ackq.otel.instrument(tracer_provider=(traces := TracerProvider()))
    traces.add_span_processor(SimpleSpanProcessor(spans := InMemorySpanExporter()))
    health = Health(port=0, interval=0.05)
    try:
        with rig.working(health=health):
            rig.push(pay, 5)
            wait_until(lambda: rig.queue.stats().dead, "the dead letter")
            counted = scraped(health.address)
    finally:
        ackq.otel.uninstrument()
    labels = {"queue": rig.queue.name, "outcome": "reject", "task": "shop.pay"}
    assert value(counted, "ackq_handled_total", **labels) == 1
    (failed,) = [record for record in caplog.records if record.message.startswith("failed ")]
    assert vars(failed)["task"] == "shop.pay"
    assert " task=shop.pay " in failed.message
    (process,) = [span for span in spans.get_finished_spans() if "process" in span.name]
    assert (process.attributes or {})["messaging.ackq.message.task"] == "shop.pay"
    listed = CliRunner().invoke(main, ["dead", "list", "--causes", rig.queue.name, "--url", url])
    assert [line.split("\t")[2] for line in listed.output.splitlines()] == ["shop.pay"]


def test_options_that_need_each_other_may_come_one_by_one() -> None:
    task = Tasks(None).task(name="t")(_first)
    whole = task.options(replace=True).options(unique_by=["task"]).options(unique="done", delay=5)
    assert len(whole._options) == 4


def test_settings_that_cannot_work_are_refused(rig_of: Callable[..., Rig]) -> None:
    for make, text in REFUSED:
        with pytest.raises(ConfigurationError, match=text):
            make(rig_of().tasks)
    wrong: dict[str, Any] = {"retries": 3}
    with pytest.raises(ConfigurationError, match="no setting 'retries': did you mean 'retry'"):
        rig_of().tasks.task(**wrong)(print)


def test_tasks_use_the_queue_or_the_client_that_they_are_given(url: str, token: str) -> None:
    with Queue.from_url(url, token, max_body_bytes=200) as queue:
        tasks = Tasks(queue)

        @tasks.task
        def note(text: str) -> None:
            """Nothing."""

        note.push("x")
        assert tasks.queue() is queue
        assert tasks.queue(f"{token}-2").config.max_body_bytes == 200
        assert queue.stats().ready == 1
        assert repr(note).startswith("<Task '")
        tasks.connect(url)
        assert tasks.queue() is not queue
        assert tasks.queue().config.max_body_bytes == 200
        assert tasks.queue().stats().ready == 1
        tasks.close()
    with redis.Redis.from_url(url) as client, Tasks(client, queue=token) as tasks:
        assert tasks.queue().stats().ready == 1


def test_a_schedule_pushes_its_task_with_its_arguments(rig: Rig) -> None:
    seen: list[tuple[str, int]] = []

    @rig.tasks.schedule(every=0.1, args={"path": "a.png"})
    @rig.tasks.schedule(every=0.1, args={"path": "b.png", "width": 40}, name="other", unique="done")
    @rig.tasks.task(name="resize")
    def resize(path: str, width: int = 80) -> None:
        seen.append((path, width))

    with rig.working():
        wait_until(lambda: {("a.png", 80), ("b.png", 40)} <= {*seen}, "both schedules")
    with pytest.raises(ConfigurationError, match="two schedules are called 'resize'"):
        rig.tasks.schedule(every=1, args={"path": "c"})(resize)
    with pytest.raises(InvalidArguments, match="Missing the argument `path`"):
        rig.tasks.schedule(every=1, args={"width": 1}, name="no path")(resize)
    with pytest.raises(ConfigurationError, match="Mars"):
        rig.tasks.schedule("0 9 * * *", zone="Mars", args={"path": "c"}, name="x")(resize)


def test_tasks_of_a_queue_with_groups_run_in_the_order_of_each_group(url: str, token: str) -> None:
    ran: list[str] = []
    with (
        Queue.from_url(url, f"{token}grouped", groups=Groups("customer")) as queue,
        Tasks(queue) as tasks,
    ):

        @tasks.task(name="charge")
        def charge(what: str) -> None:
            ran.append(what)

        for number in range(3):
            for customer in ("c-1", "c-2"):
                charge.options(group=customer).push(f"{customer}: {number}")
        tasks.run(drain=True)
        assert sorted(ran, key=lambda what: what[:3]) == [
            f"{customer}: {number}" for customer in ("c-1", "c-2") for number in range(3)
        ]


def test_the_group_of_a_task_is_one_of_its_arguments(url: str, token: str) -> None:
    groups = Groups("customer", in_flight=2)
    with (
        Queue.from_url(url, f"{token}grouped", groups=groups) as queue,
        Tasks(queue) as tasks,
    ):

        @tasks.task(name="charge", group="customer")
        def charge(what: str, customer: int | str | float = "c-0") -> Later:
            return Later(30, group=True)

        @tasks.batch(10, queue=f"{token}others", name="notify", group="names")
        def notify(names: list[str]) -> None: ...

        charge.push("a", 17)
        charge.push("b", customer="c-1")
        charge.push("c")
        charge.options(unique="done", id="d", group="c-2").push("d", 17)
        notify.push("c-3")
        for wrong in ("", 1.5, 2**53, 2.0):
            with pytest.raises(InvalidArguments, match=r"\$\.customer is the group"):
                charge.push("x", wrong)
        peeked = [*queue.peek(9), *queue.beside(f"{token}others").peek()]
        named = [orjson.loads(each.body)["customer"] for each in peeked]
        assert named == [17, "c-1", "c-0", "c-2", "c-3"]
        for wrong in ("client", "message"):
            with pytest.raises(ConfigurationError, match=f"one of what, not {wrong!r}"):

                @tasks.task(name="other", group=wrong)
                def other(what: str, message: Message = injected) -> None: ...

        queue.push({"task": "charge", "args": {"what": "e"}}, group=17)
        tasks.run(drain=True)
        paused = {each.name: each.paused_for for each in queue.groups()}
        assert paused.keys() == {"17", "c-1", "c-0", "c-2"}
        assert all(25 < each <= 30 for each in paused.values() if each)
        queue.beside(f"{token}others").purge()
