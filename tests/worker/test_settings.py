"""Every setting of a worker: its least and its greatest value, and where it goes."""

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import redis

import ackq
from ackq.core import observation
from ackq.errors import ConfigurationError
from ackq.worker import Backoff, Batch, Health, Hooks, RateLimit, Schedule, Worker


@pytest.fixture
def queues() -> Iterator[list[ackq.Queue]]:
    """Two queues, to which nothing is sent."""
    made = [ackq.Queue(redis.Redis(), name) for name in ("one", "two")]
    yield made
    for each in made:
        each.close()


def _worker(**settings: Any) -> Worker:
    with ackq.Queue(redis.Redis(), "jobs") as queue:
        return Worker(**{"queues": queue, "handler": print, **settings})


def _weighted(weight: Any) -> Worker:
    with ackq.Queue(redis.Redis(), "jobs") as queue:
        return Worker({queue: weight}, print)


#: What takes a setting, the values at its ends, and the nearest that are out of range.
RANGES: dict[str, tuple[Callable[[Any], Any], tuple[Any, Any], tuple[Any, Any]]] = {
    "concurrency": (lambda each: _worker(concurrency=each), (1, 10_000), (0, 10_001)),
    "prefetch": (lambda each: _worker(prefetch=each), (0, 1000), (-1, 1001)),
    "max_receives": (lambda each: _worker(max_receives=each), (1, 1_000_000), (0, 1_000_001)),
    "time_limit": (lambda each: _worker(time_limit=each), (0.001, 1e9), (0.000_9, 1e9 + 1)),
    "grace": (lambda each: _worker(grace=each), (0, 1e9), (-0.001, 1e9 + 1)),
    "heartbeat": (lambda each: _worker(heartbeat=each), (0.05, 600), (0.049, 600.1)),
    "name": (lambda each: _worker(name=each), ("w", "w" * 100), ("", "w" * 101)),
    "weight": (_weighted, (1e-6, 1e6), (0.9e-6, 1e6 + 1)),
    "backoff.base": (lambda each: Backoff(base=each), (0, 1e9), (-0.001, 1e9 + 1)),
    "backoff.limit": (lambda each: Backoff(limit=each), (0, 1e9), (-0.001, 1e9 + 1)),
    "backoff.factor": (lambda each: Backoff(factor=each), (1, 100), (0.99, 100.1)),
    "backoff.jitter": (lambda each: Backoff(jitter=each), (0, 1), (-0.01, 1.01)),
    "rate_limit.count": (RateLimit, (1, 10**9), (0, 10**9 + 1)),
    "rate_limit.per": (lambda each: RateLimit(1, per=each), (1e-6, 86_400), (0, 86_401)),
    "rate_limit.burst": (lambda each: RateLimit(1, burst=each), (1, 10**9), (0, 10**9 + 1)),
    "stalled_after": (
        lambda each: Health(port=0, stalled_after=each),
        (0.001, 1e9),
        (0.000_9, 1e9 + 1),
    ),
    "interval": (lambda each: Health(port=0, interval=each), (0.001, 1e9), (0.000_9, 1e9 + 1)),
    "batch.size": (lambda each: Batch(size=each), (1, 10_000), (0, 10_001)),
    "batch.wait": (lambda each: Batch(wait=each), (0, 60), (-0.001, 60.1)),
    "every": (lambda each: Schedule("s", b"", every=each), (0.001, 1e9), (0.000_9, 1e9 + 1)),
}


@pytest.mark.parametrize("setting", RANGES)
def test_a_setting_may_have_the_values_at_its_ends_and_none_beyond(setting: str) -> None:
    make, allowed, refused = RANGES[setting]
    for value in allowed:
        make(value)
    for value in refused:
        with pytest.raises(ConfigurationError, match=setting.partition(".")[0]):
            make(value)


def test_seconds_are_a_number() -> None:
    for value in (True, "1", None, math.nan):
        with pytest.raises(
            ConfigurationError, match=f"grace is a number of seconds or a timedelta, not {value!r}"
        ):
            _worker(grace=value)
        with pytest.raises(ConfigurationError):
            RateLimit(1, per=value)  # type: ignore[arg-type]
    for value in (True, 1.5, "1"):
        with pytest.raises(ConfigurationError):
            _worker(concurrency=value)


def test_a_worker_s_name_is_text_that_redis_can_hold() -> None:
    for name in (5, b"w", "\ud800"):
        with pytest.raises(ConfigurationError, match="name"):
            _worker(name=name)


def test_what_limits_and_schedules_name_is_a_queue_of_the_worker() -> None:
    limit = RateLimit(5)
    assert _worker(rate_limit={"jobs": limit})._state.lanes[0].limit is limit
    assert _worker(rate_limit={})._state.lanes[0].limit is None
    assert _worker(rate_limit=limit)._state.lanes[0].limit is limit
    with pytest.raises(ConfigurationError, match=r"\['another'\]"):
        _worker(rate_limit={"jobs": limit, "another": limit})
    for wrong in (5, {"jobs": 5}):
        with pytest.raises(ConfigurationError, match=r"is a RateLimit.*, not (\{'jobs': )?5"):
            _worker(rate_limit=wrong)
    _worker(schedules=[Schedule("s", b"", every=1, queue="jobs")])
    with pytest.raises(ConfigurationError, match=r"'s'.*no queue 'another'"):
        _worker(schedules=[Schedule("s", b"", every=1, queue="another")])


def test_queues_are_one_or_several_of_the_worker_s_kind(queues: list[ackq.Queue]) -> None:
    for one in (queues[0], queues[:1], tuple(queues[:1]), {queues[0]: 5}):
        assert [lane.queue.name for lane in Worker(one, print)._state.lanes] == ["one"]
    wrong: Any
    for wrong in ("jobs", b"jobs", [queues[0], "jobs"], None, 5):
        with pytest.raises(
            ConfigurationError, match=r"class Queue or ShardedQueue, not .*Queue\(client, NAME\)"
        ):
            Worker(wrong, print)
    with pytest.raises(ConfigurationError, match="not int: "):
        Worker([queues[0], 5], print)  # type: ignore[list-item]
    for wrong in ([], {}, [queues[0], queues[0]]):
        with pytest.raises(ConfigurationError, match="of different names"):
            Worker(wrong, print)


def test_a_mapping_gives_weights_and_a_list_an_order(queues: list[ackq.Queue]) -> None:
    assert Worker(queues, print)._state.feed.turns.strict
    turns = Worker(dict(zip(queues, (3, 1), strict=True)), print)._state.feed.turns
    assert not turns.strict
    taken = [0, 0]
    for _ in range(40):
        lane = next(iter(turns.order()))
        taken[lane] += 1
        turns.took(lane, 1)
    assert taken == [30, 10]


def test_every_setting_reaches_the_worker_s_state(queues: list[ackq.Queue]) -> None:
    backoff, hooks, health = Backoff(base=7), Hooks(), Health(port=0)
    worker = Worker(
        queues,
        print,
        concurrency=3,
        prefetch=5,
        time_limit=9.0,
        backoff=backoff,
        expiry_field="until",
        hooks=hooks,
        health=health,
        max_receives=4,
    )
    state = worker._state
    assert len(state.slots) == 3
    assert len({id(slot) for slot in state.slots}) == 3
    assert (state.handling.backoff, state.handling.time_limit, state.handling.expiry_field) == (
        backoff,
        9.0,
        "until",
    )
    assert state.handling.hooks == (hooks,)
    assert state.handling.figures is health.figures is not None
    assert state.watched
    state.feed.pace.finished(1e-9)
    assert state.feed.pace.spare == 5
    state.feed.pace.slowed(0.1)
    assert state.feed.pace.spare == 3
    assert [(lane.number, lane.max_receives) for lane in state.lanes] == [(0, 4), (1, 4)]
    bells = [state.feed.bell, state.upkeep_bell, *(lane.take.bell for lane in state.lanes)]
    assert len({id(bell) for bell in bells}) == 4
    assert queues[0].config.max_receives is None  # the caller's queue keeps its settings
    state = Worker(queues, print, hooks=[hooks, hooks])._state
    assert state.handling.hooks == (hooks, hooks)
    assert state.handling.backoff == Backoff()
    assert (state.handling.time_limit, state.handling.expiry_field, state.handling.figures) == (
        None,
        None,
        None,
    )
    assert not Worker(queues, print)._state.watched
    assert Worker(queues, print, expiry_field="until")._state.watched


def test_a_queue_s_own_limit_of_deliveries_goes_first(queues: list[ackq.Queue]) -> None:
    own = queues[0].with_config(max_receives=2)
    for limit, expected in ((25, [2, 25]), (None, [2, None])):
        lanes = Worker([own, queues[1]], print, max_receives=limit)._state.lanes
        assert [lane.max_receives for lane in lanes] == expected
    assert Worker(queues, print)._state.lanes[0].max_receives == 25


def test_leases_are_looked_after_often_enough_for_the_shortest() -> None:
    for leases, expected in (((30.0, 30.0), 0.05), ((30.0, 0.12), 0.02)):
        queues = [
            ackq.Queue(redis.Redis(), str(number), visibility_timeout=lease)
            for number, lease in enumerate(leases)
        ]
        assert Worker(queues, print)._upkeep_interval == pytest.approx(expected)
        for queue in queues:
            queue.close()


def test_a_worker_that_is_not_listed_sends_no_heartbeats(queues: list[ackq.Queue]) -> None:
    unlisted = Worker(queues, print, heartbeat=None)
    assert unlisted._started(unlisted._presence) == []
    worker = Worker(queues, print)
    assert not worker.stopped_by_order
    assert len(worker._started(worker._presence)) == 2
    assert worker._presence.interval == 5.0
    assert not worker.stopped_by_order
    worker._presence.ordered_to_stop = True
    assert worker.stopped_by_order


def test_the_routines_are_those_that_the_queues_and_schedules_need(
    queues: list[ackq.Queue],
) -> None:
    beat = Schedule("beat", b"", every=1)

    def names(worker: Worker, drain: bool = False) -> list[str]:
        worker._begin(drain)
        return [cast(Any, routine).gi_code.co_name for routine in worker._started(*worker._sources)]

    waits, stored = ["wait_for_messages"] * 2, ["run_stored", "run_stored", "run_alone"]
    assert names(Worker(queues[0], print)) == ["feed", *stored[1:]]
    assert names(Worker(queues[0], print), drain=True) == ["feed", *stored[1:]]
    assert names(Worker(queues, print)) == ["feed", *waits, *stored]
    assert names(Worker(queues, print), drain=True) == ["feed", *stored]
    limited = Worker(queues[0], print, rate_limit=RateLimit(5))
    assert names(limited) == ["feed", *waits[1:], *stored[1:]]
    worker = Worker(queues, print, schedules=[beat, beat])
    assert names(worker) == ["feed", *waits, "run_schedule", "run_schedule", *stored]


def test_a_schedule_pushes_to_the_queue_that_it_names_or_the_first(
    queues: list[ackq.Queue],
) -> None:
    named = [Schedule("beat", b"", every=1, queue=name) for name in ("two", "one", None)]
    worker = Worker(queues, print, schedules=named)
    state = worker._begin(drain=True)
    started = worker._started(*worker._sources)
    feeder, *routines, _one, _two, _alone = [cast(Any, each).gi_frame.f_locals for each in started]
    assert feeder["state"] is state
    found = [
        (routine["queue"].name, routine["schedule"], routine["outages"]) for routine in routines
    ]
    outages = {lane.queue.name: lane.outages for lane in state.lanes}
    assert found == [
        (name, schedule, outages[name])
        for name, schedule in zip(("two", "one", "one"), named, strict=True)
    ]
    assert all(routine["running"] is state for routine in routines)
    bells = [routine["bell"] for routine in routines]
    assert len({*map(id, bells)}) == 3
    assert {*map(id, bells)} < {*map(id, state.bells)}  # which the stop rings


def test_heartbeats_show_the_worker_under_its_name_until_it_leaves(
    queues: list[ackq.Queue],
) -> None:
    worker = Worker(queues, print, name="box", heartbeat=7.0)
    presence: Any = worker._presence
    presence.end()  # it is in none
    presence.ended = False
    locals_of = [cast(Any, each).gi_frame.f_locals for each in worker._started(presence)]
    assert (presence._fixed["name"], presence.interval) == ("box", 7.0)
    assert presence._stop == worker.stop
    assert [each["lane"] for each in locals_of] == worker._state.lanes
    assert [each["presence"] for each in locals_of] == [presence] * 2
    bells = [each["bell"] for each in locals_of]
    assert bells[0] is not bells[1]
    presence.end()
    assert presence.ended is True
    assert all(bell._event.is_set() for bell in bells)


def test_an_observer_learns_where_each_queue_is(
    queues: list[ackq.Queue], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def handled(*args: Any) -> str:
        asked.append(args)
        return "observed"

    monkeypatch.setattr(observation, "handled", handled)
    worker = Worker(queues, print)
    state = worker._begin(drain=True)
    assert state is worker._state
    assert state.draining is True
    assert asked == [(print, {"one": "localhost:6379/0", "two": "localhost:6379/0"})]
    handler: Any = worker._handler
    assert handler == "observed"
    state.stopping = True
    with pytest.raises(ConfigurationError, match="runs once"):
        worker._begin(drain=False)


def test_a_worker_ends_when_its_handlers_and_helpers_have(queues: list[ackq.Queue]) -> None:
    worker = Worker(queues, print, grace=10.0)
    state = worker._state
    now = 100.0
    state.clock = lambda: now
    state.wake = lambda: None
    assert not worker._is_over(True)
    assert not worker._is_over(False)
    worker.stop()
    assert not worker._is_over(True)
    assert state.stopping
    assert worker._is_over(False)
    message = ackq.Message("one", b"a", b"{}", 1, 1)
    state.slots[0].message = message
    now = 109.9
    assert not worker._is_over(False)
    assert worker.cut_short is False
    now = 110.0
    assert worker._is_over(False)
    assert worker.cut_short
    impatient = Worker(queues, print, grace=10.0)
    impatient._state.wake = lambda: None
    impatient.stop()
    impatient.stop()
    assert impatient._is_over(True)
    assert impatient.cut_short


def test_a_stop_says_how_many_handlers_run(
    queues: list[ackq.Queue], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ackq.worker")
    for stops, busy in ((1, True), (1, False), (2, True)):
        worker = Worker(queues, print, grace=10.0)
        worker._state.wake = lambda: None
        if busy:
            worker._state.slots[1].message = ackq.Message("one", b"a", b"{}", 1, 1)
        for _ in range(stops):
            worker.stop()
        for _ in range(2):
            worker._is_over(True)
    assert caplog.messages == [
        "stopping: 1 running, up to 10 s; stop again to release their messages",
        "stopping",
        "stopping",
    ]
