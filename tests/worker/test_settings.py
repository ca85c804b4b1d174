"""Every setting of a worker: its least and its greatest value, and where it goes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import ackq
from ackq.errors import ConfigurationError
from ackq.worker import Backoff, Batch, Health, RateLimit, Schedule, Worker


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
RANGES: dict[str, tuple[Callable[[Any], Any], tuple[Any, Any], tuple[Any, ...]]] = {
    "concurrency": (lambda each: _worker(concurrency=each), (1, 10_000), (0, 10_001)),
    "prefetch": (lambda each: _worker(prefetch=each), (0, 1000), (-1, 1001)),
    "max_receives": (lambda each: _worker(max_receives=each), (1, 1_000_000), (0, 1_000_001)),
    "time_limit": (lambda each: _worker(time_limit=each), (0.001, 1e9), (0.000_9, 1e9 + 1)),
    "grace": (lambda each: _worker(grace=each), (0, 1e9), (-0.001, 1e9 + 1)),
    "heartbeat": (lambda each: _worker(heartbeat=each), (0.05, 600), (0.049, 600.1)),
    "name": (lambda each: _worker(name=each), ("w", "w" * 100), ("", "w" * 101, "\ud800")),
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


def test_leases_are_looked_after_often_enough_for_the_shortest() -> None:
    for leases, expected in (((30.0, 30.0), 0.05), ((30.0, 0.12), 0.02)):
        queues = [
            ackq.Queue(redis.Redis(), str(number), visibility_timeout=lease)
            for number, lease in enumerate(leases)
        ]
        assert Worker(queues, print)._upkeep_interval == pytest.approx(expected)
        for queue in queues:
            queue.close()
