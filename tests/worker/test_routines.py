"""What a worker's routines do at each of their steps, answered by hand, with no server."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError

import ackq
from ackq.core import observation
from ackq.errors import ConfigurationError, LeaseLost
from ackq.queue.messages import Message
from ackq.worker import Backoff, RateLimit
from ackq.worker.effects import Call, Routine, Wait
from ackq.worker.feeder import IDLE, TAKE_TIMEOUT, feed, wait_for_messages
from ackq.worker.health import Health
from ackq.worker.lane import FIRST_PAUSE, JITTER_SECONDS, MAX_PAUSE
from ackq.worker.minutes import Minutes
from ackq.worker.policy import Settlement
from ackq.worker.presence import CHECK_INTERVAL, REFUSED_PAUSE, stay_listed
from ackq.worker.schedule import run_stored
from ackq.worker.state import State
from ackq.worker.suspects import run_alone
from ackq.worker.upkeep import STALE, WATCH_EVERY, WATCH_WINDOW, abandon, upkeep
from tests.worker.by_hand import AHEAD, Bell, Time, present, ready
from tests.worker.by_hand import message_of as _message
from tests.worker.by_hand import state_of as _state

AWAY = redis.ConnectionError("gone")


@pytest.fixture(autouse=True)
def own_context() -> Iterator[None]:
    """Routines say that their thread prefetches: later tests run in it, too."""
    with observation.prefetching():
        yield


def _ended(routine: Routine[Any], answer: Any) -> Any:
    """Give the routine its last answer; return its result."""
    with pytest.raises(StopIteration) as ended:
        routine.throw(answer) if isinstance(answer, Exception) else routine.send(answer)
    return ended.value.value


def _named(step: Call | Wait) -> str:
    return step.method.__name__ if isinstance(step, Call) else "wait"


def _about(seconds: float) -> Any:
    return pytest.approx(seconds)


def _run(routine: Routine[Any], answers: Sequence[Any] = ()) -> list[str]:
    """Answer the calls one by one, with None after the last; return the names of all steps."""
    left = iter(answers)
    steps: list[str] = []
    try:
        step = next(routine)
        while True:
            steps.append(_named(step))
            answer = next(left, None)
            step = routine.throw(answer) if isinstance(answer, Exception) else routine.send(answer)
    except StopIteration:
        return steps


# --- taking -------------------------------------------------------------------------------


def test_one_queue_is_waited_for_in_the_take_and_acked_there() -> None:
    state, time = _state()
    lane = state.lanes[0]
    done = _message(time, id="done")
    lane.upkeep.done.append(done)
    routine = feed(state)
    call = next(routine)
    assert isinstance(call, Call)
    assert (_named(call), call.args) == ("pop_many", (4, 0.5, None, [done]))  # a promise
    assert lane.take.under_way
    assert lane.take.asked_at == 100.0
    time.now = 101.0
    found = _message(time, id="a")
    # Nothing is taken in advance while it is unknown how long handlers take.
    assert routine.send([found]) == Wait(state.feed.bell, IDLE)
    assert [state.feed.waits, lane.take.under_way, lane.take.asked_at] == [True, False, None]
    assert state.feed.last_take == 101.0
    assert lane.remaining(found, 101.0) == pytest.approx(30.0 + JITTER_SECONDS)
    state.slots[0].message = state.feed.buffer.popleft()
    call = routine.send(None)
    # A running handler may return its message, which does not wake a take.
    assert isinstance(call, Call)
    assert call.args == (3, 0.2, None, [])
    state.stopping = True
    _ended(routine, [])
    assert not lane.take.empty  # the take itself waits


def test_a_take_that_fails_keeps_its_acks_and_pauses_its_queue_alone() -> None:
    state, time = _state(queues=2)
    first, second = state.lanes
    done = _message(time, id="done")
    first.upkeep.done.append(done)
    routine = feed(state)
    assert next(routine).args[1] is None  # type: ignore[union-attr]
    call = routine.throw(AWAY)
    assert list(first.upkeep.done) == [done]
    assert (first.take.not_before, first.take.under_way, first.take.asked_at) == (
        100.0 + FIRST_PAUSE,
        False,
        None,
    )
    assert isinstance(call, Call)
    assert call.method.__self__ is second.queue  # type: ignore[attr-defined]
    step = routine.send([])
    assert (second.take.empty, second.take.empty_since_settled) == (
        True,
        False,
    )  # an ack is to be sent
    assert second.take.bell.rings == 1  # type: ignore[attr-defined]
    assert step == Wait(state.feed.bell, _about(FIRST_PAUSE))
    time.now = 100.0 + FIRST_PAUSE
    call = routine.send(None)
    assert isinstance(call, Call)
    assert call.args[3] == [done]
    done.lease_lost = True
    lost: list[Message] = []
    state.handling.hooks = (_hooks(lost),)
    routine.send([])
    assert lost == [done]
    assert (first.failures, first.take.not_before) == (0, 0.0)


def _hooks(lost: list[Message]) -> Any:
    class Hooks(ackq.worker.Hooks):
        def lost_lease(self, message: Message) -> None:
            lost.append(message)

    return Hooks()


def test_a_queue_that_the_server_cannot_serve_ends_the_worker() -> None:
    state, time = _state()
    done = _message(time)
    state.lanes[0].upkeep.done.append(done)
    routine = feed(state)
    next(routine)
    error = ConfigurationError("no such thing")
    _ended(routine, error)
    assert state.fatal is error
    assert state.stopping
    assert list(state.lanes[0].upkeep.done) == [done]
    assert not state.lanes[0].take.under_way


def test_a_full_worker_looks_again_when_the_pause_of_another_queue_ends() -> None:
    state, time = _state(queues=2, slots=1)
    state.slots[0].message = _message(time)
    state.lanes[1].take.not_before = time.now + 0.1
    assert next(feed(state)) == Wait(state.feed.bell, _about(0.1))


def test_a_draining_worker_looks_at_every_queue_again_after_its_last_settle() -> None:
    state, time = _state(queues=2)
    state.draining = True
    state.lanes[0].upkeep.done.append(_message(time))
    routine = feed(state)
    assert next(routine).args[1] is None  # type: ignore[union-attr]
    assert _named(routine.send([])) == "pop_many"
    # The first was empty before its ack was sent, so a message may have come back since.
    assert routine.send([]) == Wait(state.feed.bell, IDLE)
    assert [lane.take.not_before for lane in state.lanes] == [100.01, 100.01]
    assert [lane.take.empty for lane in state.lanes] == [False, False]
    time.now += 0.01
    assert _named(routine.send(None)) == "pop_many"
    assert _named(routine.send([])) == "pop_many"
    _ended(routine, [])
    assert state.stopping


def test_a_draining_worker_waits_a_little_while_others_own_the_shards_that_have_messages() -> None:
    state, time = _state()
    (lane,) = state.lanes
    state.draining = lane.sharded = True
    routine = feed(state)
    assert _named(next(routine)) == "pop_many"
    assert _named(routine.send([])) == "stats"
    assert routine.send(ready(3)) == Wait(state.feed.bell, _about(0.05))
    time.now += 0.04
    assert routine.send(None) == Wait(state.feed.bell, _about(0.01))
    time.now += 0.01
    assert _named(routine.send(None)) == "pop_many"
    assert _named(routine.send([])) == "stats"
    _ended(routine, ready(0))
    assert state.stopping


def test_permits_that_a_take_did_not_use_are_returned_with_the_next_request() -> None:
    limit = RateLimit(10)
    state, time = _state(limit=limit)
    lane = state.lanes[0]
    lane.failures = 3
    routine = feed(state)
    call = next(routine)
    assert isinstance(call, Call)
    assert call.args[1:] == (limit, 4, 0)
    call = routine.send((3, 0))
    assert lane.failures == 0
    assert isinstance(call, Call)
    assert call.args[:2] == (3, None)
    routine.send([_message(time)])
    state.slots[0].message = state.feed.buffer.popleft()
    call = routine.send(None)
    assert isinstance(call, Call)
    assert call.args[1:] == (limit, 3, 2)
    step = routine.send((0, 2_000_000))
    assert lane.take.not_before == 102.0
    assert step == Wait(state.feed.bell, IDLE)
    time.now = 102.0
    assert routine.send(None).args[1:] == (limit, 3, 0)  # type: ignore[union-attr]
    step = routine.throw(AWAY)
    assert step == Wait(state.feed.bell, _about(FIRST_PAUSE))
    time.now = 103.0
    routine.send(None)
    routine.send((3, 0))
    call = routine.send([])  # nothing is ready: all are returned at once
    assert isinstance(call, Call)
    assert call.args[1:] == (limit, 0, 3)
    routine.send((0, 5_000_000))
    assert (lane.take.empty, lane.take.unused, lane.take.not_before) == (True, 0, 0.0)


def test_an_empty_queue_of_several_is_waited_for_beside_the_feeder() -> None:
    state, time = _state(queues=2)
    lane = state.lanes[0]
    routine = wait_for_messages(state, lane)
    idle = Wait(lane.take.bell, IDLE)
    assert next(routine) == idle  # it is not known to be empty
    lane.take.empty, state.draining = True, True
    assert routine.send(None) == idle
    state.draining, state.quiet = False, True
    assert routine.send(None) == idle
    state.quiet, lane.take.not_before = False, 100.5
    assert routine.send(None) == idle
    time.now = 100.5
    call = routine.send(None)
    assert isinstance(call, Call)
    assert call.args[:2] == (1, TAKE_TIMEOUT)
    assert lane.take.under_way
    assert _named(routine.send([])) == "pop_many"
    found = _message(time)
    assert routine.send([found]) == idle
    assert list(state.feed.buffer) == [found]
    assert (lane.take.under_way, lane.take.empty, state.feed.bell.rings) == (False, False, 1)  # type: ignore[attr-defined]


def test_a_message_beyond_the_rate_limit_is_released() -> None:
    state, time = _state(queues=2, limit=RateLimit(10))
    lane = state.lanes[0]
    lane.take.empty = True
    routine = wait_for_messages(state, lane)
    next(routine)
    found = _message(time)
    assert routine.send([found]).args[2:] == (1, 0)  # type: ignore[union-attr]
    assert routine.send((0, 1_000_000)) == Wait(lane.take.bell, IDLE)
    assert not state.feed.buffer
    assert list(lane.upkeep.returned) == [(found, Settlement("release"))]
    assert state.upkeep_bell.rings == 1  # type: ignore[attr-defined]
    assert (lane.take.under_way, lane.take.empty, lane.take.not_before) == (False, False, 101.0)


# --- upkeep -------------------------------------------------------------------------------


def test_a_failed_renewal_pauses_the_queue_for_less_than_the_lease_has_left() -> None:
    state, time = _state()
    lane = state.lanes[0]
    state.arrived(lane, [_message(time)])
    state.slots[0].message = state.feed.buffer.popleft()
    lane.upkeep.done.append(_message(time, id="done"))
    time.now = 125.0
    assert _run(upkeep(state), [AWAY, None, AWAY]) == ["extend", "counters", "ack"]
    assert lane.upkeep.not_before == 125.0 + 2 * FIRST_PAUSE
    assert _run(upkeep(state)) == []
    state.stopping = True
    assert _run(upkeep(state)) == ["extend", "ack"]
    lane.failures = 10
    lane.failed(AWAY, 125.0, "take")
    assert (lane.take.not_before, lane.upkeep.not_before) == (
        125.0 + MAX_PAUSE,
        125.0 + MAX_PAUSE,
    )
    lane.timeout = 6.0
    lane.failed(AWAY, 125.0, "take")
    assert (lane.take.not_before, lane.upkeep.not_before) == (125.0 + MAX_PAUSE, 126.0)


def test_the_totals_are_kept_counted() -> None:
    state, time = _state()
    routine = upkeep(state)
    call = next(routine)
    assert isinstance(call, Call)
    assert (_named(call), call.args) == ("counters", (WATCH_WINDOW,))
    _ended(routine, NoPermissionError())  # not every user may
    time.now += WATCH_EVERY - 1
    assert _run(upkeep(state)) == []
    time.now += 1
    assert _run(upkeep(state)) == ["counters"]


def test_what_waits_for_too_long_is_released_for_others() -> None:
    state, time = _state()
    lane = state.lanes[0]
    lane.upkeep.watch_at = 1e9
    state.arrived(lane, [_message(time, id="a", taken=STALE - 0.1), _message(time, id="b")])
    # Ages are known to within the jitter of a receipt: this is the least.
    old, new = state.feed.buffer
    lane.clocks["q0"] += JITTER_SECONDS
    assert _run(upkeep(state)) == []
    time.now += 0.2
    routine = upkeep(state)
    call = next(routine)
    assert isinstance(call, Call)
    assert (_named(call), call.args, list(state.feed.buffer)) == ("release", (old,), [new])
    assert state.feed.pace.seconds == pytest.approx(STALE + 0.1)
    state.stopping = True
    _ended(routine, AWAY)
    assert list(lane.upkeep.returned) == [(old, Settlement("release"))]
    assert _run(upkeep(state)) == ["release"]
    assert not state.feed.buffer


def test_messages_with_the_same_verdict_are_settled_in_one_call() -> None:
    state, time = _state()
    lane = state.lanes[0]
    lane.upkeep.watch_at = 1e9
    a, b, c, d = (_message(time, id=each) for each in "abcd")
    lane.upkeep.returned.extend(
        [
            (a, Settlement("nack", 2.0)),
            (b, Settlement("reject", "why")),
            (c, Settlement("nack", 2.0)),
            (d, Settlement("nack", 3.0)),
        ]
    )
    routine = upkeep(state)
    calls = [next(routine)]
    for _ in range(2):
        assert state.unsettled()  # or a drain would end now
        calls.append(routine.send(None))
    assert [(_named(call), call.args, call.keywords) for call in calls] == [  # type: ignore[union-attr]
        ("nack", (a, c), {"delay": 2.0}),
        ("reject", (b,), {"reason": "why"}),
        ("nack", (d,), {"delay": 3.0}),
    ]
    _ended(routine, LeaseLost("lost", messages=(d,)))
    assert d.lease_lost
    assert not lane.upkeep.returned


def test_an_abandoned_handler_over_its_time_limit_has_failed() -> None:
    state, time = _state()
    running = _message(time)
    running.timed_out = True
    state.handling.backoff = Backoff(base=3, jitter=0)
    state.slots[2].message = running
    abandon(state)
    assert list(state.lanes[0].upkeep.returned) == [(running, Settlement("nack", 3.0))]
    assert b"over the time limit" in running.failure
    assert running.lease_lost


# --- the list of workers ------------------------------------------------------------------


def test_a_worker_that_may_not_list_itself_tries_again_much_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state, time = _state()
    presence = present(state)
    bell = Bell()
    routine = stay_listed(state, state.lanes[0], presence, bell)
    assert _named(next(routine)) == "execute"
    assert routine.throw(NoPermissionError("no")) == Wait(bell, CHECK_INTERVAL)
    assert "registration of this worker failed" in caplog.text
    time.now += REFUSED_PAUSE - 0.1
    assert routine.send(None) == Wait(bell, _about(0.1))
    time.now += 0.1
    assert _named(routine.send(None)) == "execute"
    caplog.set_level(logging.WARNING)
    assert routine.send(b"") == Wait(bell, CHECK_INTERVAL)
    assert "registration of this worker works again after 60.0 s" in caplog.text
    time.now += 5.0
    assert _named(routine.send(None)) == "execute"
    assert routine.throw(AWAY) == Wait(bell, CHECK_INTERVAL)
    time.now += 5.0
    assert _named(routine.send(None)) == "execute"
    presence.ended = True
    assert _named(routine.send(b"")) == "execute"  # it leaves the list
    _ended(routine, AWAY)


# --- errors -------------------------------------------------------------------------------


def _at(routine: Routine[Any], *answers: Any) -> Routine[Any]:
    """Return the routine at the call that follows these answers."""
    step = next(routine)
    for answer in answers:
        step = routine.send(answer)
    assert isinstance(step, Call)
    return routine


def _counting_shards(state: State) -> Routine[Any]:
    state.draining = state.lanes[0].sharded = True
    return _at(feed(state), [])


def _beside_the_feeder(state: State) -> Routine[Any]:
    state.lanes[0].take.empty = True
    return _at(wait_for_messages(state, state.lanes[0]))


def _asking_for_permits(state: State) -> Routine[Any]:
    state.lanes[0].limit = RateLimit(10)
    return _at(feed(state))


def _leaving_the_list(state: State) -> Routine[Any]:
    presence = present(state)
    routine = _at(stay_listed(state, state.lanes[0], presence, Bell()))
    presence.ended = True
    routine.send(b"")
    return routine


def _of_a_minute(state: State) -> Routine[Any]:
    minutes = Minutes(wanted=True)
    (routine,) = minutes.start(state, Bell)
    minutes.end()
    return _at(routine)


def _checking_health(state: State) -> Routine[Any]:
    state.feed.last_take = 0.0
    return _at(Health(port=0).watch(state))


def _running_alone(state: State) -> Routine[Any]:
    state.suspects.append(_message(Time()))
    return _at(run_alone(state, None))


@pytest.mark.parametrize(
    "begin",
    [
        lambda state: _at(feed(state)),
        _counting_shards,
        _beside_the_feeder,
        _asking_for_permits,
        lambda state: _at(upkeep(state)),
        lambda state: _at(stay_listed(state, state.lanes[0], present(state), Bell())),
        _leaving_the_list,
        _of_a_minute,
        _running_alone,
        lambda state: _at(run_stored(state, state.lanes[0].queue, Bell(), state.lanes[0].outages)),
        _checking_health,
    ],
)
def test_a_routine_outlives_an_outage_but_no_error_of_the_program(begin: Any) -> None:
    with suppress(StopIteration):
        begin(_state()[0]).throw(AWAY)
    with pytest.raises(ZeroDivisionError):
        begin(_state()[0]).throw(ZeroDivisionError())


def test_an_unreachable_shard_does_not_keep_others_from_being_settled_and_renewed() -> None:
    state, time = _state()
    lane = state.lanes[0]
    lane.upkeep.watch_at = 1e9
    for shard in ("one", "other"):
        state.arrived(lane, [_message(time, shard, shard, taken=25.0)])
        lane.upkeep.done.append(_message(time, shard, "done"))
        lane.upkeep.returned.append((_message(time, shard, "returned"), Settlement("release")))
    state.slots[0].message, state.slots[1].message = (
        state.feed.buffer.popleft(),
        state.feed.buffer.popleft(),
    )
    lane.clocks = dict.fromkeys(("one", "other"), AHEAD)
    routine = upkeep(state)
    call = next(routine)
    for verb in ("extend", "ack", "release"):
        assert _named(call) == verb
        assert [arg.queue for arg in call.args] == ["one"]  # type: ignore[union-attr]
        call = routine.throw(AWAY)
        assert _named(call) == verb
        assert [arg.queue for arg in call.args] == ["other"]  # type: ignore[union-attr]
        with suppress(StopIteration):
            call = routine.send(1)
    assert [each.queue for each in lane.upkeep.done] == ["one"]
    assert [each.queue for each, _ in lane.upkeep.returned] == ["one"]
