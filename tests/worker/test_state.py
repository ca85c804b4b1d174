"""How messages change a worker's state, and what a schedule decides, with no server."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import time as time_of_day
from typing import Any

import orjson
import pytest
import redis
from redis.exceptions import ResponseError

import ackq
from ackq.config import QueueConfig
from ackq.core import observation, timetable
from ackq.errors import ConfigurationError, InvalidMessage, KeyTypeError
from ackq.ops.chronicle.durations import BUCKETS
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec
from ackq.worker import Again, Hooks, RateLimit, Reject, Release, Schedule
from ackq.worker.base import is_async
from ackq.worker.effects import Call, Wait
from ackq.worker.failures import Failures, outlook
from ackq.worker.feed import Pace
from ackq.worker.feeder import IDLE, feed, permit, wait_for_messages
from ackq.worker.figures import WAIT_BUCKETS, Handled
from ackq.worker.figures import Figures as CountedFigures
from ackq.worker.lane import FIRST_PAUSE, JITTER_SECONDS, MAX_PAUSE
from ackq.worker.logs import JsonFormatter, TextFormatter, _value, fields_of, location_of
from ackq.worker.outages import Outages
from ackq.worker.policy import Settlement
from ackq.worker.presence import stay_listed
from ackq.worker.schedule import CHECK_INTERVAL, Answer, run_schedule, tick
from ackq.worker.slot import Slot
from ackq.worker.state import Quota, State
from ackq.worker.upkeep import upkeep
from tests.outside import FIXED
from tests.steps import play
from tests.worker.by_hand import AHEAD, Bell, Time, message_of, present, state_of

AWAY = redis.ConnectionError("gone")
SPEC = QueueSpec("jobs", QueueKeys.of("jobs"), QueueConfig(), outside=FIXED)


@pytest.fixture(autouse=True)
def no_prefetch() -> Iterator[None]:
    """Forget what an operation that was left in the middle of a take has set in this thread."""
    set_before = observation._PREFETCHES.set(False)
    yield
    observation._PREFETCHES.reset(set_before)


class Notes(Hooks):
    """Notes the calls of all hooks."""

    def __init__(self) -> None:
        self.notes: list[tuple[Any, ...]] = []

    def before(self, message: Message) -> None:
        self.notes.append(("before", message.id))

    def after(self, message: Message, outcome: str, seconds: float) -> None:
        self.notes.append(("after", message.id, outcome, seconds))

    def error(self, message: Message, error: BaseException) -> None:
        self.notes.append(("error", message.id, error))

    def dead(self, message: Message) -> None:
        self.notes.append(("dead", message.id))

    def lost_lease(self, message: Message) -> None:
        self.notes.append(("lost", message.id))


class Figures:
    """Notes what handlers did."""

    def __init__(self) -> None:
        self.added: list[tuple[Any, ...]] = []

    def add(self, *args: Any) -> None:
        self.added.append(args)


@pytest.fixture
def noted() -> tuple[Any, ...]:
    """A state of two queues, whose hooks and figures are noted."""
    state, time = state_of(queues=2)
    state.handling.hooks = (notes := Notes(),)
    state.handling.figures = figures = Figures()  # type: ignore[assignment]
    return state, time, notes, figures


def _rings(*bells: Any) -> list[int]:
    return [bell.rings for bell in bells]


# --- lanes and slots ----------------------------------------------------------------------


def test_at_most_a_thousand_messages_are_acked_in_one_call() -> None:
    state, time = state_of()
    lane = state.lanes[0]
    messages = [message_of(time, id=str(number)) for number in range(1500)]
    lane.upkeep.done.extend(messages)
    assert lane.upkeep.collect() == messages[:1000]
    assert lane.upkeep.collect() == messages[1000:]
    assert lane.upkeep.collect() == []


def test_pauses_after_failed_calls_double_up_to_a_limit_and_end_with_a_success() -> None:
    state, _ = state_of()
    lane = state.lanes[0]
    pauses, renewals = [], []
    for _ in range(20):
        lane.failed(AWAY, 50.0, "take")
        pauses.append(lane.take.not_before - 50.0)
        renewals.append(lane.upkeep.not_before - 50.0)
    expected = [min(MAX_PAUSE, FIRST_PAUSE * 2**n) for n in range(20)]
    assert pauses == renewals == pytest.approx(expected)
    assert lane.failures == 20
    lane.take.not_before = 70.0
    lane.succeeded(60.0, "take")
    assert (lane.failures, lane.take.not_before, lane.upkeep.not_before) == (0, 0.0, 0.0)
    lane.take.not_before = lane.upkeep.not_before = 70.0  # as a rate limit does
    lane.succeeded(60.0, "take")
    assert (lane.take.not_before, lane.upkeep.not_before) == (70.0, 70.0)


def test_the_age_of_a_message_and_what_is_left_of_its_lease() -> None:
    state, time = state_of()
    lane = state.lanes[0]
    message = message_of(time)
    state.arrived(lane, [message_of(time, id="old", taken=5.0), message])
    assert lane.clocks["q0"] == pytest.approx(AHEAD - JITTER_SECONDS)  # by the latest
    assert lane.age(message, 103.0) == pytest.approx(3.0 - JITTER_SECONDS)
    assert lane.remaining(message, 103.0) == pytest.approx(27.0 + JITTER_SECONDS)
    assert state.feed.last_take == 100.0


# --- taking -------------------------------------------------------------------------------


def test_room_is_what_slots_and_prefetch_leave() -> None:
    state, time = state_of()
    state.feed.pace = Pace(4, 10)
    assert (state.room(state.lanes[0]), state.feed.refill_at) == (4, 0)
    state.feed.pace.finished(1e-9)
    assert (state.room(state.lanes[0]), state.feed.refill_at) == (14, 5)
    state.slots[0].message = message_of(time)
    state.slots[1].taking = True
    state.slots[2].taking, state.slots[2].message = True, message_of(time)
    assert state.busy() == 3
    assert state.room(state.lanes[0]) == 11
    state.feed.buffer.extend([message_of(time)] * 5)
    assert state.room(state.lanes[0]) == 6
    state.feed.buffer.append(message_of(time))
    assert (state.room(state.lanes[0]), state.feed.refill_at) == (0, 5)
    state.feed.waits = True
    state.feed.made_room()
    assert (state.feed.waits, state.feed.bell.rings) == (True, 0)  # type: ignore[attr-defined]
    state.feed.buffer.popleft()
    state.feed.made_room()
    assert (state.feed.waits, state.feed.bell.rings) == (False, 1)  # type: ignore[attr-defined]


def test_messages_that_arrive_wake_a_slot_and_count_for_their_queue() -> None:
    state, time = state_of(queues=2)
    woken: list[int] = []
    state.wake = lambda: woken.append(len(state.feed.buffer))
    time.now = 150.0
    state.arrived(state.lanes[1], [message_of(time, "q1"), message_of(time, "q1", "b")])
    assert woken == [2]
    assert state.feed.last_take == 150.0
    assert list(state.feed.turns.order()) == [0, 1]
    state.feed.turns.took(0, 3)
    assert list(state.feed.turns.order()) == [1, 0]  # it has had two


def test_a_take_that_was_ordered_off_at_the_last_moment_is_not_sent() -> None:
    """An order may come between a routine's first look and its call."""
    for routine in ("feed", "wait"):
        state, _time = state_of(queues=2)
        lane = state.lanes[0]

        def clock(state: State = state, lane: Any = lane) -> float:
            state.quiet = True
            return 100.0

        state.clock = clock
        lane.take.empty = routine == "wait"
        steps = feed(state) if routine == "feed" else wait_for_messages(state, lane)
        bell = state.feed.bell if routine == "feed" else lane.take.bell
        assert next(steps) == Wait(bell, IDLE)
        assert not lane.take.under_way


def _renewing(state: State, time: Time) -> Any:
    state.slots[0].message = message_of(time, taken=20.0)
    state.lanes[0].clocks["q0"] = AHEAD
    state.lanes[0].upkeep.watch_at = 1e9
    return upkeep(state)


def _settling(state: State, time: Time) -> Any:
    state.lanes[0].upkeep.done.append(message_of(time))
    state.lanes[0].upkeep.watch_at = 1e9
    return upkeep(state)


def _listing(state: State, time: Time) -> Any:
    return stay_listed(state, state.lanes[0], present(state), Bell())


@pytest.mark.parametrize(
    ("doing", "begin", "answer"),
    [
        ("take", lambda state, time: feed(state), []),
        ("rate limit", lambda state, time: feed(state), (1, 0)),
        ("renewal of leases", _renewing, 1),
        ("settling", _settling, 1),
        ("registration of this worker", _listing, b""),
    ],
)
def test_every_call_that_fails_is_logged_by_its_name_until_it_works(
    doing: str, begin: Any, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    state, time = state_of(limit=RateLimit(5) if doing == "rate limit" else None)
    for at, ending in ((100.0, ResponseError("no")), (103.0, answer)):
        time.now = at
        steps = begin(state, time)
        assert isinstance(next(steps), Call)
        with contextlib.suppress(StopIteration):
            steps.throw(ending) if isinstance(ending, Exception) else steps.send(ending)
    assert caplog.messages == [
        f"queue q0: {doing} failed, the server at localhost:6379/0 refuses it; trying until it"
        " works: ResponseError: no",
        f"queue q0: {doing} works again after 3.0 s; calls that failed: 1",
    ]


def test_a_queue_that_pauses_does_not_keep_others_waiting() -> None:
    state, time = state_of(queues=3)
    for lane in state.lanes:
        lane.upkeep.done.append(message_of(time, lane.queue.name))
        lane.upkeep.watch_at = 1e9
    state.lanes[1].upkeep.not_before = 100.1
    steps = upkeep(state)
    calls: list[Any] = [next(steps), steps.send(1)]
    assert [call.method.__self__ for call in calls] == [state.lanes[0].queue, state.lanes[2].queue]
    with pytest.raises(StopIteration):
        steps.send(1)


# --- handling -----------------------------------------------------------------------------


def _handle(state: State, message: Message, took: float = 0.25) -> Slot:
    slot = state.slots[1]
    slot.message, slot.started = message, state.clock() - took
    return slot


@pytest.mark.parametrize(
    ("value", "expired"),
    [
        (100 + AHEAD - 1, True),
        (100 + AHEAD, True),
        (100 + AHEAD + 0.5, False),
        (True, False),
        ("0", False),
        (None, False),
        (0, True),
        ([], False),
    ],
    ids=repr,
)
def test_an_expired_message_is_rejected_unseen(noted: Any, value: Any, expired: bool) -> None:
    state, _time, notes, _figures = noted
    state.handling.expiry_field = "until"
    lane = state.lanes[1]
    lane.clocks["q1"] = AHEAD
    message = Message("q1", b"a", orjson.dumps({"until": value}), 1, 1)
    slot = _handle(state, message)
    assert state.skips(slot) is expired
    if expired:
        assert list(lane.upkeep.returned) == [(message, Settlement("reject", "expired"))]
        assert notes.notes == [("after", "a", "reject", 0.25)]
        assert slot.message is None
        assert state.upkeep_bell.rings == 1
    else:
        assert (notes.notes, list(lane.upkeep.returned)) == ([("before", "a")], [])


def test_a_body_without_a_time_does_not_expire(noted: Any) -> None:
    state, *_ = noted
    state.handling.expiry_field = "until"
    for body in (b"{}", b"[", b"[]", b"5", b'"until"'):
        assert not state.skips(_handle(state, Message("q1", b"a", body, 1, 1)))


@pytest.mark.parametrize("batching", [False, True])
def test_messages_of_two_queues_over_the_quota_are_given_back(batching: bool) -> None:
    state, time = state_of(queues=2)
    state.quota = Quota(3)
    # Each take saw that three were wanted.
    messages = [message_of(time, f"q{n % 2}", f"m{n}") for n in range(6)]
    handled = []
    for slot, pair in zip(state.slots, (messages[:2], messages[2:4], messages[4:]), strict=False):
        if batching:
            slot.batch = pair
            handled += slot.batch if state.ready(slot) else []
        else:
            handled += [each for each in pair if not _skipped(state, slot, each)]
    assert handled == messages[:3]
    returned = [each for lane in state.lanes for each, _ in lane.upkeep.returned]
    assert sorted(each.id for each in returned) == ["m3", "m4", "m5"]
    assert {how for lane in state.lanes for _, how in lane.upkeep.returned} == {
        Settlement("release")
    }
    assert state.quiet


def _skipped(state: State, slot: Slot, message: Message) -> bool:
    slot.message = message
    return state.skips(slot)


def test_what_a_handler_did_is_settled_counted_and_shown(noted: Any) -> None:
    state, _time, notes, figures = noted
    lane = state.lanes[1]
    bug = ValueError("why")
    ends: list[tuple[str, Any, str]] = [
        ("ok", None, "ack"),
        ("bug", bug, "nack"),
        ("no", Reject("no"), "reject"),
        ("later", Release(), "release"),
        ("again", Again(7), "nack"),
    ]
    state.handling.backoff = ackq.worker.Backoff(base=3, jitter=0)
    for lost in (False, True):
        notes.notes.clear()
        figures.added.clear()
        lane.upkeep.done.clear()
        lane.upkeep.returned.clear()
        for id, error, _ in ends:
            message = Message("q1", id.encode(), b"{}", 1, 1)
            message.lease_lost = lost
            slot = _handle(state, message)
            if error is None:
                state.succeeded(slot)
            else:
                state.failed(slot, error)
            assert slot.message is None
        outcomes = ["lost" if lost else outcome for _, _, outcome in ends]
        assert figures.added == [("q1", outcome, 0.25, None, "") for outcome in outcomes]
        after = [
            ("after", id, outcome, 0.25) for (id, _, _), outcome in zip(ends, outcomes, strict=True)
        ]
        assert notes.notes == [after[0], ("error", "bug", bug), *after[1:]]
        assert [each.id for each in lane.upkeep.done] == ([] if lost else ["ok"])
        assert [(each.id, settlement) for each, settlement in lane.upkeep.returned] == (
            []
            if lost
            else [
                ("bug", Settlement("nack", 3.0)),
                ("no", Settlement("reject", "no")),
                ("later", Settlement("release")),
                ("again", Settlement("nack", 7.0)),
            ]
        )
    assert not state.lanes[0].upkeep.returned
    assert state.upkeep_bell.rings == 8
    assert state.feed.pace.seconds == 0.25


@pytest.mark.parametrize(
    ("reason", "verb", "text"),
    [
        ("lost lease", "release", None),
        ("stop", "release", None),
        ("time limit", "nack", "over the time limit"),
        ("", "nack", "its own"),
    ],
)
def test_a_cancelled_handler_has_failed_unless_the_worker_wanted_it(
    noted: Any, reason: str, verb: str, text: str | None
) -> None:
    state, _time, notes, _ = noted
    slot = _handle(state, message := Message("q1", b"a", b"{}", 1, 1))
    slot.interrupted = reason
    state.cancelled(slot, asyncio.CancelledError("its own"))
    ((returned, settlement),) = state.lanes[1].upkeep.returned
    assert (returned, settlement.verb) == (message, verb)
    *errors, after = notes.notes
    assert after == ("after", "a", verb, 0.25)
    assert [str(error) for *_, error in errors] == ([] if text is None else [text])


def test_a_handler_that_returns_after_its_time_limit_has_failed(noted: Any) -> None:
    state, *_ = noted
    message = Message("q1", b"a", b"{}", 1, 1)
    message.timed_out = True
    state.succeeded(_handle(state, message))
    assert not state.lanes[1].upkeep.done
    assert state.lanes[1].upkeep.returned.pop()[1].verb == "nack"
    assert b"over the time limit" in message.failure


def test_the_end_of_a_handler_never_raises(noted: Any) -> None:
    state, *_ = noted
    state.ended(Slot(), None)
    state.ended(_handle(state, Message("of no lane", b"a", b"{}", 1, 1)), OSError())
    assert not state.busy()


def test_a_message_whose_handler_still_runs_here_is_given_back(noted: Any) -> None:
    state, time, *_ = noted
    running, again, other = (message_of(time, id=id) for id in "aab")
    again.receive_count = other.receive_count = 2
    state.slots[1].message = running
    state.arrived(state.lanes[0], [again, other])
    assert list(state.feed.buffer) == [other]
    assert list(state.lanes[0].upkeep.returned) == [(again, Settlement("release", 1.0))]
    assert state.upkeep_bell.rings == 1
    state.slots[1].message = None
    state.arrived(state.lanes[0], [again])
    assert list(state.feed.buffer) == [other, again]
    # An equal id that is delivered for the first time is another message.
    state.slots[1].message = running
    state.arrived(state.lanes[0], [message_of(time)])
    assert len(state.feed.buffer) == 3


def test_the_end_of_a_handler_wakes_a_waiting_feeder(noted: Any) -> None:
    state, time, *_ = noted
    for waits, rings in ((False, 0), (True, 1)):
        state.feed.waits = waits
        state.succeeded(_handle(state, message_of(time)))
        assert state.feed.bell.rings == rings


def test_the_end_of_a_handler_is_logged_for_those_who_debug(
    noted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    state, _time, *_ = noted
    message = Message("q1", b"a", b"{}", 1, 3)
    with caplog.at_level(logging.DEBUG, "ackq.worker"):
        state.succeeded(_handle(state, message, took=0.123_456_789))
    assert caplog.messages == [
        "handled queue=q1 message_id=a size=2 receive_count=3 outcome=ack seconds=0.123457"
    ]
    assert caplog.records[0].levelname == "DEBUG"
    caplog.clear()
    with caplog.at_level(logging.INFO, "ackq.worker"):
        state.succeeded(_handle(state, message))
    assert caplog.messages == []


def test_a_verdict_that_is_the_last_delivery_is_logged(
    noted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    state, _time, *_ = noted
    state.lanes[1].max_receives = 3
    for count, error in ((2, Again(0)), (3, Release()), (3, Reject()), (3, Again(0)), (4, Again())):
        state.failed(_handle(state, Message("q1", b"a", b"{}", 1, count)), error)
    assert caplog.messages == [
        f'gave up queue=q1 message_id=a size=2 receive_count={count} outlook="dead after {count}"'
        for count in (3, 4)
    ]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_lost_leases_and_dead_letters_are_logged_and_shown(
    noted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    state, time, notes, _ = noted
    running, waiting = message_of(time, id="running"), message_of(time, id="waiting")
    slot = _handle(state, running)
    state.lost([running, waiting])
    assert (running.lease_lost, waiting.lease_lost) == (True, True)
    assert [each.interrupted for each in state.slots if each is not slot] == [""] * 3
    assert slot.interrupted == "lost lease"
    state.lost([running])
    running.dead = True
    state.died([running, waiting], Settlement("reject", "no file"))
    assert notes.notes == [
        ("lost", "running"),
        ("lost", "waiting"),
        ("lost", "running"),
        ("dead", "running"),
    ]
    assert [message.partition(" queue=")[0] for message in caplog.messages] == [
        *["lost its lease"] * 3,
        "dead",
    ]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert caplog.messages[-1].endswith('reason="no file"')


def test_leases_that_are_lost_or_of_other_queues_are_not_renewed() -> None:
    state, time = state_of(queues=2)
    messages = [message_of(time, id=each, taken=20.0) for each in "abc"]
    messages[1].lease_lost = messages[2].timed_out = True  # over its limit, it still runs
    other = message_of(time, "q1", "d", taken=20.0)
    for lane in state.lanes:
        lane.clocks[lane.queue.name] = AHEAD
    state.feed.buffer.extend([messages[0], other])
    state.slots[2].message, state.slots[3].message = messages[1:]
    assert state.due(state.lanes[0], 100.0) == [messages[0], messages[2]]
    assert state.due(state.lanes[1], 100.0) == [other]
    least = 20.0 + JITTER_SECONDS  # two thirds of a lease
    message = message_of(time)
    state.slots[3].message = None
    state.feed.buffer.clear()
    state.feed.buffer.append(message)
    assert state.due(state.lanes[0], 100.0 + 30.0 - least - 0.001) == []
    assert state.due(state.lanes[0], 100.0 + 30.0 - least + 0.001) == [message]


def test_a_worker_is_settled_when_it_holds_and_owes_nothing() -> None:
    state, time = state_of(queues=2)
    message = message_of(time)
    assert state.settled()
    places: list[Any] = [
        state.feed.buffer,
        state.lanes[1].upkeep.done,
        state.lanes[1].upkeep.returned,
    ]
    for place in places:
        place.append(message)
        assert not state.settled()
        assert state.unsettled() is (place is not state.feed.buffer)
        place.clear()
    state.slots[3].taking = True
    assert not state.settled()
    assert not state.unsettled()


def test_orders_and_stops_ring_every_bell() -> None:
    state, _ = state_of(queues=2)
    woken: list[bool] = []
    state.wake = lambda: woken.append(state.stopping)
    bells = (state.feed.bell, state.upkeep_bell, *(lane.take.bell for lane in state.lanes))
    state.hush(True)
    assert state.quiet is True
    assert _rings(*bells) == [1, 0, 1, 1]
    state.hush(False)
    assert state.quiet is False
    assert _rings(*bells) == [2, 0, 2, 2]
    state.stop()
    assert _rings(*bells) == [3, 1, 3, 3]
    assert woken == [True]


# --- verdicts, failures and logs -----------------------------------------------------------


def test_a_verdict_shows_its_argument() -> None:
    assert [str(each) for each in (Again(5), Reject("why"), Reject(), Release())] == [
        "5",
        "why",
        "rejected",
        "0.0",
    ]
    assert (Again().delay, Again(5).delay, Reject().reason) == (None, 5, "rejected")


def test_what_becomes_of_a_failed_message() -> None:
    message = Message("q", b"a", b"{}", 1, 2)
    nack = Settlement("nack", 1234.5)
    for limit, expected in (
        (3, "retry 2 of 2 in 1.23e+03 s"),
        (2, "dead after 2"),
        (1, "dead after 2"),
        (None, "retry 2 in 1.23e+03 s"),
    ):
        assert outlook(message, nack, limit) == expected
    message.lease_lost = True
    assert outlook(message, nack, 2) == "its lease was lost"


def test_the_user_s_code_is_found_in_all_modules_of_its_package() -> None:
    """The innermost frame of the handler's package counts, installed or not."""

    class Handler:
        def __call__(self, message: Message) -> None:
            """Only looked at."""

    def handle(message: Message) -> None:
        play(fail())

    def fail() -> Any:
        raise ValueError("why")
        yield

    handle.__module__ = "tests.another.module"
    failures = Failures(handle, "text")
    assert failures._package == "tests"
    with pytest.raises(ValueError, match="why") as raised:
        handle(message_of(Time()))
    line = fail.__code__.co_firstlineno + 1
    assert failures.describe(raised.value, False).place == f"{location_of(raised.value)} in fail"
    assert location_of(raised.value) == f"{__file__}:{line}"
    for handler in (Handler(), Handler.__call__):
        defined = Handler.__call__.__code__
        assert Failures(handler, "text")._defined == (
            f"{__file__}:{defined.co_firstlineno} in __call__"
        )
    assert Failures(len, "text")._defined == ""
    assert Failures(print, "text").describe(ValueError(), False).place == ""
    assert location_of(ValueError()) == ""
    from functools import partial, wraps

    assert Failures(partial(handle), "text")._defined.endswith(" in handle")

    @wraps(handle)
    def wrapped(message: Message) -> None:
        """Only looked at."""

    assert Failures(wrapped, "text")._defined.endswith(" in handle")


def test_the_error_behind_a_verdict_is_what_is_stored() -> None:
    state, time = state_of()

    def raised(cause: Any, context: Any) -> BaseException:
        try:
            if context is None:
                raise Again() from cause
            try:
                raise context
            except Exception:
                if cause is not None:
                    raise Again() from (None if cause == "none" else cause)
                raise Again()  # noqa: B904 - the error is its context
        except Again as error:
            return error

    key, value = KeyError("key"), ValueError("value")
    for error, expected in (
        (value, "ValueError"),
        (raised(key, None), "KeyError"),
        (raised(None, value), "ValueError"),
        (raised(key, value), "KeyError"),
        (raised("none", value), None),
        (Again(), None),
    ):
        state.verdict(message := message_of(time), error)
        stored = message.failure
        assert (orjson.loads(stored)["type"] if stored else None) == expected


def test_the_fields_of_a_record_are_those_of_its_message() -> None:
    message = Message("q", b"a b", b"12345", 1, 2)
    expected = {"queue": "q", "message_id": "a b", "size": 5, "receive_count": 2, "error": "x"}
    assert fields_of(message, error="x") == expected
    record = logging.LogRecord("ackq.worker", logging.INFO, "p", 1, "%s", ("text\n",), None)
    record.__dict__.update(expected, created=5.5, other="not shown")
    assert orjson.loads(JsonFormatter().format(record)) == {
        "time": 5.5,
        "level": "INFO",
        "logger": "ackq.worker",
        "message": "text\n",
        **expected,
    }
    try:
        raise ValueError("why\nthen")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    assert orjson.loads(JsonFormatter().format(record))["traceback"].endswith("why\nthen")
    record.exc_text = "cached by another"
    lines = TextFormatter().format(record).split("\n")
    assert lines[-2:] == ["  ValueError: why", "  then"]
    assert "cached" not in "".join(lines)
    record.message_id = "\ud800"
    assert orjson.loads(JsonFormatter().format(record))["message_id"] == "\\ud800"


def test_values_of_a_record_are_quoted_where_their_end_would_be_unclear() -> None:
    assert [_value(each) for each in ("a", "", "a b", 'a"b', 5, "a\nb")] == [
        "a",
        '""',
        '"a b"',
        '"a"b"',
        "5",
        r"a\nb",
    ]


def test_figures_of_several_workers_are_added() -> None:
    figures = CountedFigures()
    empty = figures.snapshot()
    assert (empty.busy, empty.concurrency, empty.queues) == (0, 0, {})
    assert empty.since == figures.since <= time_of_day()
    for outcome, seconds, waited in (("ack", 0.3, 2.0), ("ack", 0.3, None), ("nack", 4.0, 2.0)):
        figures.add("jobs", outcome, seconds, waited)
    figures.busy, figures.concurrency = 2, 3
    one = figures.snapshot()
    other = figures.snapshot()
    other.queues["more"] = Handled(seconds=1.0)
    one.add(other)
    one.add_ended(other)
    assert (one.busy, one.concurrency) == (4, 6)
    jobs = one.queues["jobs"]
    assert jobs.seconds == pytest.approx(3 * 4.6)
    assert jobs.waited == 12.0
    assert jobs.outcomes == {"ack": 6, "nack": 3}
    assert (jobs.buckets[BUCKETS.index(0.5)], jobs.buckets[BUCKETS.index(5.0)]) == (6, 3)
    assert (sum(jobs.buckets), sum(jobs.waits)) == (9, 6)
    assert jobs.waits[WAIT_BUCKETS.index(2.5)] == 6
    assert one.queues["more"].seconds == 2.0
    again = figures.snapshot()
    assert again.queues["jobs"].seconds == pytest.approx(4.6)  # copies do not change it


def test_whether_a_handler_is_asynchronous() -> None:
    async def function(message: Message) -> None:
        """Only looked at."""

    class Object:
        async def __call__(self, message: Message) -> None:
            """Only looked at."""

    class Plain:
        def __call__(self, message: Message) -> None:
            """Only looked at."""

    handlers: list[Any] = [function, Object(), Object().__call__, Plain(), print]
    assert [is_async(handler) for handler in handlers] == [True, True, True, False, False]


# --- schedules ----------------------------------------------------------------------------


class Scheduler:
    """The surroundings of a schedule: a clock that the test sets, and a queue that it plays."""

    def __init__(self, schedule: Schedule, **config: Any) -> None:
        self.now = 100.0
        self.stopping = False
        self.config = QueueConfig(**config)
        self.bell = Bell()
        self.outages = Outages("jobs", "here")
        self.steps = run_schedule(self, self, schedule, self.bell, self.outages)

    def clock(self) -> float:
        return self.now

    def execute(self) -> None:
        """Only named by the calls."""


def test_a_schedule_asks_for_the_latest_tick_then_waits_for_the_next() -> None:
    scheduler = Scheduler(Schedule("beat", {"n": 1}, every=10))
    steps, ahead = scheduler.steps, 5_000_000_000
    call = next(steps)
    assert call == Call(scheduler.execute, (tick, "beat", 0, 0, 0, b"", "", None))
    # The server's clock is ahead: by it, the next tick is in three seconds, then in 0.4.
    step = steps.send(Answer("known", 0, ahead + 100_000_000 + 7_000_000, 0))
    assert step == Wait(scheduler.bell, CHECK_INTERVAL)
    scheduler.now += 2.6
    step = steps.send(None)
    assert isinstance(step, Wait)
    assert step.seconds == pytest.approx(0.4)
    scheduler.now += 0.4
    due = ahead + 110_000_000
    call = steps.send(None)
    assert isinstance(call, Call)
    when = datetime.fromtimestamp(due / 1e6, UTC).isoformat()
    body = b'{"id":"beat@%b","n":1}' % when.encode()
    assert call.args == (tick, "beat", due, 0, 0, body, "", None)
    # The server says that a later one was pushed by another worker.
    step = steps.send(Answer("known", due + 10_000_000, due + 11_000_000, 0))
    assert step == Wait(scheduler.bell, CHECK_INTERVAL)
    scheduler.now += 9.0
    call = steps.send(None)
    assert isinstance(call, Call)
    assert call.args[2:5] == (due + 20_000_000, due + 10_000_000, 0)
    scheduler.stopping = True
    with pytest.raises(StopIteration):
        steps.send(Answer("pushed", due + 20_000_000, due + 20_000_000, 0))


def test_a_schedule_that_was_never_used_misses_nothing_and_a_late_one_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for latest, missed in ((0, 0), (40, 3)):
        scheduler = Scheduler(Schedule("beat", b"x", every=10))
        steps = scheduler.steps
        next(steps)
        steps.send(Answer("known", latest * 1_000_000, 50_000_000, 0))
        scheduler.now += 30.5
        call = steps.send(None)
        assert isinstance(call, Call)
        assert call.args[2:5] == (80_000_000, latest * 1_000_000, missed)
        steps.send(Answer("pushed", 80_000_000, 80_500_000, 0))
    assert caplog.messages == ["schedule beat: 3 ticks were missed"]
    assert caplog.records[0].levelname == "WARNING"


def test_an_outage_of_a_schedule_is_named_and_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = Scheduler(Schedule("beat", b"x", every=10))
    steps = scheduler.steps
    call = next(steps)
    for _ in range(2):
        assert steps.throw(ResponseError("no")) == Wait(scheduler.bell, CHECK_INTERVAL)
        scheduler.now += 0.5
        assert steps.send(None) == call
    steps.send(Answer("known", 0, 107_000_000, 0))
    assert caplog.messages == [
        "queue jobs: schedule beat failed, the server at here refuses it; trying until it works:"
        " ResponseError: no",
        "queue jobs: schedule beat works again after 1.0 s; calls that failed: 2",
    ]
    assert [vars(record).get("queue") for record in caplog.records] == ["jobs", "jobs"]
    assert vars(caplog.records[0])["error"] == "ResponseError"


def test_a_tick_without_a_message_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    made: list[datetime] = []

    def make(when: datetime) -> Any:
        made.append(when)
        if len(made) == 1:
            raise RuntimeError("secret")
        return {"id": "x" * 600} if len(made) == 2 else b"x" * 200

    scheduler = Scheduler(Schedule("beat", make, every=10), max_body_bytes=100)
    steps = scheduler.steps
    next(steps)
    step = steps.send(Answer("known", 0, 107_000_000, 0))
    for _ in range(3):
        assert isinstance(step, Wait)
        scheduler.now += 10
        step = steps.send(None)
    assert [each.timestamp() for each in made] == [110, 120, 130]
    assert caplog.messages[0] == "schedule beat: no message for a tick: RuntimeError"
    assert caplog.messages[1].startswith("schedule beat: no message for a tick: InvalidMessage: ")
    assert caplog.messages[2].startswith("schedule beat: no message for a tick: MessageTooLarge: ")


def test_the_body_of_a_tick_has_an_id_and_a_time_where_they_are_wanted() -> None:
    tick_at = 1_700_000_000_000_000
    when = "2023-11-14T22:13:20+00:00"
    body = Schedule("s", {"n": 1}, every=1).body(tick_at, 1000)
    assert orjson.loads(body) == {"id": f"s@{when}", "n": 1}
    assert orjson.loads(Schedule("s", {"id": "own"}, every=1).body(tick_at, 1000)) == {"id": "own"}
    assert Schedule("s", b"raw", every=1).body(tick_at, 1000) == b"raw"
    once = Schedule("s", {"n": 1}, every=1, unique="done")
    assert once.body(tick_at, 1000) == b'{"id":"s","n":1}'
    with pytest.raises(InvalidMessage, match="these bytes have none"):
        Schedule("s", b"raw", every=1, unique="done").body(tick_at, 1000)
    timed = orjson.loads(Schedule("s", {}, every=1).body(tick_at, 1000, "at"))
    assert timed.keys() == {"id", "at"}
    seen: list[datetime] = []
    Schedule("s", lambda when: seen.append(when) or {}, every=1).body(tick_at, 1000)  # type: ignore[func-returns-value]
    assert [each.isoformat() for each in seen] == [when]


def test_ticks_are_counted_from_the_epoch() -> None:
    schedule = Schedule("s", {}, every=2.5)
    assert [schedule.timetable.after(at) for at in (0, 2_499_999, 2_500_000)] == [
        2_500_000,
        2_500_000,
        5_000_000,
    ]
    assert schedule.timetable.newest(5_000_000, 7_499_999) == 5_000_000
    assert schedule.timetable.newest(5_000_000, 7_500_000) == 7_500_000
    assert schedule.timetable.newest(5_000_000, 1_000_000) == 5_000_000
    assert schedule.timetable.between(0, 10_000_000) == 3
    assert schedule.timetable.between(10_000_000, 10_000_000) == 0
    assert schedule.timetable.between(10_000_000, 0) == 0
    assert Schedule("s", {}, every=0.001).timetable.between(0, 10**15) == timetable.MAX_MISSED
    cron = Schedule("s", {}, cron="* * * * *").timetable
    minute = 60_000_000
    assert [cron.after(at) for at in (0, minute - 1, minute)] == [
        minute,
        minute,
        2 * minute,
    ]
    assert (
        cron.newest(minute, 3 * minute - 1),
        cron.newest(minute, 3 * minute),
    ) == (
        2 * minute,
        3 * minute,
    )
    assert (cron.between(minute, 5 * minute), cron.between(minute, minute)) == (
        3,
        0,
    )


def test_ticks_of_cron_that_are_counted_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timetable, "MAX_MISSED", 3)
    cron = Schedule("s", {}, cron="* * * * *").timetable
    assert cron.between(0, 100 * 60_000_000) == 3
    assert cron.between(0, 4 * 60_000_000) == 3
    assert cron.between(0, 3 * 60_000_000) == 2


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"name": "", "every": 1}, "cannot be named ''"),
        ({"name": "a:missed", "every": 1}, "cannot be named 'a:missed'"),
        ({"name": "s"}, "schedule 's' takes every= or cron="),
        ({"name": "s", "every": 1, "cron": "* * * * *"}, "schedule 's' takes every= or cron="),
        ({"name": "s", "every": 0}, "every is 0.001 to"),
        (
            {"name": "s", "cron": "61 * * * *"},
            "schedule 's': cron '61 .*': minute is 0 to 59, not '61'",
        ),
        (
            {"name": "s", "cron": "0 0 31 2 *"},
            "schedule 's': cron '0 0 31 2 .*': day-of-month is .+, not '31'",
        ),
        ({"name": "s", "cron": "nonsense"}, "schedule 's': cron has five fields"),
    ],
    ids=repr,
)
def test_what_is_wrong_with_a_schedule_is_said(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Schedule(message=b"", **settings)


# --- requests -----------------------------------------------------------------------------


def test_a_tick_is_one_request_that_may_be_repeated() -> None:
    (asked,), answer = play(tick(SPEC, "beat", 5, 4, 3, b"x"), [b"pushed", 5, 6, 7])
    assert answer == Answer("pushed", 5, 6, 7)
    assert asked.args[1:4] == (b"jobs", b"jobsTICKS", b"jobsWORKERS:SCHEDULES")
    assert asked.args[10:] == ("beat", 5, 4, 3, b"x", "right", "")
    assert (asked.resend, asked.script.name) == (True, "worker/tick")


def test_a_tick_searches_for_a_message_that_was_pushed_long_ago() -> None:
    unlisted = [[b"0", 5], [b"0", 0], [b"0", 0], [b"0", 5]]  # no claim, none on the two lists
    replies = [b"search", 4, 6, 0, b"note|"], *unlisted, [b"pushed", 5, 6, 0]
    steps = tick(SPEC, "beat", 5, 4, 0, b'{"id":"k"}', "", "done")
    (first, *_, last), answer = play(steps, *replies)
    assert first.args[-3:] == ("done", "k", b"")
    assert last.args[-3:] == ("done", "k", b"-note|")
    assert answer == Answer("pushed", 5, 6, 0)


def test_a_permit_is_one_request_that_may_be_repeated() -> None:
    limit = RateLimit(50, per=2.0, burst=7)
    (asked,), answer = play(permit(SPEC, limit, 5, 3), (2, 9))
    assert answer == (2, 9)
    assert asked.args == (1, b"jobsRATELIMIT", 5, 3, 50, 2_000_000, 7)
    assert (asked.resend, asked.script.name) == (True, "worker/permit")


def test_keys_of_other_types_are_named() -> None:
    wrong = ResponseError("WRONGTYPE Operation against a key")
    text = "queue 'jobs': 'jobsTICKS' is a list, not a hash"
    with pytest.raises(KeyTypeError, match=text):
        play(tick(SPEC, "beat", 5, 4, 3, b"x"), wrong, b"list", b"list", b"hash")
    with pytest.raises(KeyTypeError, match="'jobs' is a set, not a list"):
        play(tick(SPEC, "beat", 5, 4, 3, b"x"), wrong, b"set", b"none", b"none")
    with pytest.raises(KeyTypeError, match="queue 'jobs': 'jobsRATELIMIT' is a hash, not a string"):
        play(permit(SPEC, RateLimit(5), 1, 0), wrong, b"hash")


# --- presence -----------------------------------------------------------------------------


def test_a_worker_reports_what_it_does() -> None:
    state, time = state_of(queues=2)
    presence = present(state, "box")
    time.now += 7.1234567
    first, second = message_of(time, id="i" * 99), message_of(time, "q1", "other")
    state.slots[0].message, state.slots[0].started = first, time.now - 1.5
    state.slots[1].message, state.slots[1].started = second, time.now - 9.0
    state.slots[2].message, state.slots[2].started = message_of(time, id="old"), time.now - 3.0
    record = orjson.loads(presence.record(state.lanes[0]))
    host, pid, _ = presence.id.split(":")
    assert record == {
        "name": "box",
        "host": host,
        "pid": int(pid),
        "version": ackq.__version__,
        "queues": ["q0", "q1"],
        "concurrency": 4,
        "interval": 5.0,
        "lifetime": 30.0,
        "state": "working",
        "busy": 3,
        "age": 7.123,
        "running": [["old", 3.0], ["i" * 64, 1.5]],
    }
    assert orjson.loads(presence.record(state.lanes[1]))["running"] == [["other", 9.0]]
    assert presence.lifetime == 30.0
    assert (presence.ended, presence.ordered_to_stop) == (False, False)
    unnamed = present(state)
    assert orjson.loads(unnamed.record(state.lanes[0]))["name"] == unnamed.id != presence.id


def test_most_of_what_a_large_worker_does_is_reported() -> None:
    state, time = state_of(slots=60)
    for number, slot in enumerate(state.slots):
        slot.message, slot.started = message_of(time, id=str(number)), time.now - number
    presence = present(state)
    running = orjson.loads(presence.record(state.lanes[0]))["running"]
    assert [each for each, _ in running] == [str(each) for each in reversed(range(10, 60))]
    many, _ = state_of(queues=101)
    shown = orjson.loads(present(many).record(many.lanes[0]))["queues"]
    assert shown == [f"q{number}" for number in range(100)]


def test_the_condition_of_a_worker() -> None:
    state, time = state_of(queues=2)
    presence = present(state)
    assert presence.condition() == "working"
    state.quiet = True
    assert presence.condition() == "quiet"
    state.lanes[1].take.under_way = True
    assert presence.condition() == "working"
    state.lanes[1].take.under_way = False
    state.feed.buffer.append(message_of(time))
    assert presence.condition() == "quieting"
    presence.ordered_to_stop = True
    assert presence.condition() == "stopping"
    presence.ordered_to_stop = False
    state.stopping = True
    assert presence.condition() == "stopping"


def test_orders_change_what_they_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ackq.worker")
    state, _ = state_of()
    stops: list[int] = []
    presence = present(state, stop=lambda: stops.append(1))
    for order, quiet in (
        ("17:quiet", True),
        ("18:quiet", True),
        ("19:resume", False),
        ("20:resume", False),
        ("21:dance", False),
        ("", False),
        ("quiet", True),
    ):
        presence.obey(order)
        assert state.quiet is quiet
    assert not stops
    for _ in range(2):
        presence.obey("22:stop")
    assert (stops, presence.ordered_to_stop) == ([1], True)
    assert caplog.messages == [
        f"{verb} ordered through Redis" for verb in ("quiet", "resume", "quiet", "stop")
    ]
    stopped = present(state, stop=lambda: stops.append(2))
    state.stopping = True
    stopped.obey("23:stop")
    assert (stops, stopped.ordered_to_stop) == ([1], False)


def test_an_order_that_is_not_text_harms_nothing() -> None:
    state, _ = state_of()
    bell = Bell()
    steps = stay_listed(state, state.lanes[0], present(state), bell)
    next(steps)
    call = steps.send(b"17\xff:quiet")
    assert state.quiet
    assert isinstance(call, Call)
    assert call.args[-1] == b"17\xff:quiet"


def test_an_entry_that_was_never_made_is_not_deleted() -> None:
    state, _ = state_of()
    presence = present(state)
    steps = stay_listed(state, state.lanes[0], presence, Bell())
    call = next(steps)
    assert isinstance(call, Call)
    assert call.args[1:] == (presence.id, presence.record(state.lanes[0]), 30.0, b"")
    presence.ended = True
    with pytest.raises(StopIteration):
        steps.throw(AWAY)


def test_a_change_of_condition_is_reported_before_the_interval_ends() -> None:
    state, time = state_of()
    presence = present(state)
    bell = Bell()
    steps = stay_listed(state, state.lanes[0], presence, bell)
    next(steps)
    assert steps.send(b"") == Wait(bell, 0.2)
    time.now += 0.2
    assert steps.send(None) == Wait(bell, 0.2)
    state.quiet = True
    assert isinstance(steps.send(None), Call)
    assert steps.send(b"") == Wait(bell, 0.2)
    time.now += 4.9
    step = steps.send(None)
    assert isinstance(step, Wait)
    assert step.seconds == pytest.approx(0.1)
    time.now += 0.1
    assert isinstance(steps.send(None), Call)


def test_a_health_check_shows_itself_somewhere(tmp_path: Path) -> None:
    from ackq.worker import Health

    health = Health(port=0)
    assert (health.address, health.reason) == (None, "")
    assert health.figures is health.served is not None
    assert Health(file=str(tmp_path / "x")).figures is None
