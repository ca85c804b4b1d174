"""How messages change a worker's state, and what a schedule decides, with no server."""

import contextlib
import logging
from collections.abc import Iterator
from datetime import datetime
from functools import partial, wraps
from typing import Any

import orjson
import pytest
import redis
from redis.exceptions import ResponseError

from ackq.config import QueueConfig
from ackq.core import observation
from ackq.errors import InvalidMessage, KeyTypeError
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec
from ackq.worker import Again, Hooks, RateLimit, Reject, Release, Schedule
from ackq.worker.base import is_async
from ackq.worker.effects import Call, Wait
from ackq.worker.failures import Failures
from ackq.worker.feed import Pace
from ackq.worker.feeder import IDLE, feed, permit, wait_for_messages
from ackq.worker.lane import FIRST_PAUSE, JITTER_SECONDS, MAX_PAUSE
from ackq.worker.logs import JsonFormatter, TextFormatter, _value, fields_of, location_of
from ackq.worker.policy import Settlement
from ackq.worker.presence import stay_listed
from ackq.worker.schedule import Answer, tick
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
    """Notes the calls of hooks."""

    def __init__(self) -> None:
        self.notes: list[tuple[Any, ...]] = []

    def before(self, message: Message) -> None:
        self.notes.append(("before", message.id))

    def after(self, message: Message, outcome: str, seconds: float) -> None:
        self.notes.append(("after", message.id, outcome, seconds))


@pytest.fixture
def noted() -> tuple[Any, ...]:
    """A state of two queues, whose hooks are noted."""
    state, time = state_of(queues=2)
    state.handling.hooks = (notes := Notes(),)
    return state, time, notes


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
    state, _time, notes = noted
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
    with pytest.raises(ValueError, match="why") as raised:
        handle(message_of(Time()))
    line = fail.__code__.co_firstlineno + 1
    assert failures.describe(raised.value, False).place == f"{location_of(raised.value)} in fail"
    assert location_of(raised.value) == f"{__file__}:{line}"

    @wraps(handle)
    def wrapped(message: Message) -> None:
        """Only looked at."""

    defined: dict[Any, str] = {Handler(): "__call__", Handler.__call__: "__call__"}
    defined |= {partial(handle): "handle", wrapped: "handle"}
    for handler, name in defined.items():
        code: Any = (Handler.__call__ if name == "__call__" else handle).__code__
        place = Failures(handler, "text").describe(ValueError(), False).place
        assert place == f"{__file__}:{code.co_firstlineno} in {name}"
    assert Failures(print, "text").describe(ValueError(), False).place == ""
    assert location_of(ValueError()) == ""


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


# --- requests -----------------------------------------------------------------------------


def test_a_tick_searches_for_a_message_that_was_pushed_long_ago() -> None:
    unlisted = [[b"0", 5], [b"0", 0], [b"0", 0], [b"0", 5]]  # no claim, none on the two lists
    replies = [b"search", 4, 6, 0, b"note|"], *unlisted, [b"pushed", 5, 6, 0]
    steps = tick(SPEC, "beat", 5, 4, 0, b'{"id":"k"}', "", "done")
    (first, *_, last), answer = play(steps, *replies)
    assert first.args[-3:] == ("done", "k", b"")
    assert last.args[-3:] == ("done", "k", b"-note|")
    assert answer == Answer("pushed", 5, 6, 0)


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
