"""The decisions of a worker, without a queue."""

import inspect
import pickle
from typing import Any

import pytest

import ackq
from ackq.config import QueueConfig
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec
from ackq.tasks.tasks import TasksWorker
from ackq.tasks.tasks_async import AsyncTasksWorker
from ackq.worker import Again, AsyncWorker, Backoff, RateLimit, Reject, Release, Worker
from ackq.worker.feed import Pace, QueueOrder, StrictBuffer
from ackq.worker.feeder import permit
from ackq.worker.policy import Settlement, settlement_of
from tests.outside import FIXED


def message(queue: str, id: str) -> Message:
    return Message(queue, id.encode(), b"{}", 1, 1)


def test_the_backoff_grows_to_its_limit() -> None:
    backoff = Backoff(base=1, factor=2, limit=60, jitter=0)
    delays = [backoff.delay(count, 0.99) for count in (1, 2, 3, 7, 100_000)]
    assert delays == [1, 2, 4, 60, 60]


def test_jitter_only_shortens_a_delay_and_at_most_by_its_share() -> None:
    backoff = Backoff(base=8, jitter=0.5)
    delays = [backoff.delay(1, chance / 100) for chance in range(100)]
    assert max(delays) == 8
    assert min(delays) >= 4
    assert 5 <= len(set(delays)) <= 10  # few enough that failures share calls


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Release(), Settlement("release", 0.0)),
        (Release(5), Settlement("release", 5.0)),
        (Release(5, group=True), Settlement("pause", 5.0)),
        (Release(2e9), Settlement("release", 1e9)),
        (Reject("why"), Settlement("reject", "why")),
        (Reject(), Settlement("reject", "rejected")),
        (Again(delay=5), Settlement("nack", 5.0)),
        (Again(0), Settlement("nack", 0.0)),
        (Again(), Settlement("nack", 3.0)),
        (Again(2e9), Settlement("nack", 1e9)),
        (Again(999_999_999), Settlement("nack", 999_999_999.0)),
        (ValueError(), Settlement("nack", 3.0)),
        (SystemExit(), Settlement("nack", 3.0)),
    ],
    ids=repr,
)
def test_every_exception_is_a_verdict(error: BaseException, expected: Settlement) -> None:
    assert settlement_of(error, 1, Backoff(base=3, jitter=0), 0.5) == expected


def test_a_long_reason_is_kept_in_part() -> None:
    found = settlement_of(Reject("x" * 5000), 1, Backoff(), 0.5)
    assert found == Settlement("reject", "x" * 1000)


@pytest.mark.parametrize("verdict", [Again(1.5), Reject("why"), Release(2)], ids=repr)
def test_verdicts_cross_processes_and_are_no_errors_of_ackq(verdict: Any) -> None:
    copy = pickle.loads(pickle.dumps(verdict))
    assert type(copy) is type(verdict)
    assert vars(copy) == vars(verdict)
    assert not isinstance(verdict, ackq.AckqError)


def test_the_prefetch_follows_the_durations() -> None:
    pace = Pace(concurrency=10, prefetch=100)
    pace.slowed(0.25)
    pace.slowed(0.125)
    assert pace.seconds == 0.25
    pace = Pace(concurrency=10, prefetch=100)
    assert pace.spare == 0  # nothing is known yet
    pace.finished(0.00001)
    assert pace.spare == 100
    for _ in range(200):
        pace.finished(0.1)
    assert pace.spare == 10  # a tenth of a second of ten handlers
    for _ in range(200):
        pace.finished(20)
    assert pace.spare == 0
    pace = Pace(concurrency=10, prefetch=100)
    pace.finished(0.1)
    assert pace.spare == 10  # the first duration counts whole
    pace.slowed(2.0)
    assert pace.spare == 0
    pace.slowed(0.1)  # a wait that is shorter than what handlers take says nothing new
    assert pace.spare == 0


def test_a_lane_that_comes_back_is_not_let_in_before_its_turn() -> None:
    turns = QueueOrder([1, 1], 2)
    turns.took(0, 10)
    turns.took(1, 1000)
    turns.returned(1, [0])
    turns.took(0, 900)
    assert next(iter(turns.order())) == 0  # the other has had 90 more


def test_the_strict_buffer_gives_the_first_queue_first() -> None:
    buffer = StrictBuffer(["a", "b"])
    second, first, third = message("b", "1"), message("a", "2"), message("b", "3")
    buffer.extend([second, first, third])
    assert len(buffer) == 3
    assert list(buffer) == buffer.copy() == [first, second, third]
    buffer.remove(third)
    with pytest.raises(ValueError, match="not in"):
        buffer.remove(third)
    assert [buffer.popleft(), buffer.popleft()] == [first, second]
    with pytest.raises(IndexError):
        buffer.popleft()


def test_both_workers_are_one_api() -> None:
    assert inspect.signature(Worker) == inspect.signature(AsyncWorker)
    public = {name for name in dir(Worker) if not name.startswith("_")}
    assert public == {name for name in dir(AsyncWorker) if not name.startswith("_")}
    assert inspect.iscoroutinefunction(AsyncWorker.run)
    kinds = (AsyncWorker, TasksWorker, AsyncTasksWorker)
    assert {inspect.signature(kind.run) for kind in kinds} == {inspect.signature(Worker.run)}


@pytest.mark.parametrize(
    ("limit", "burst"),
    [
        (RateLimit(100), 10),
        (RateLimit(6000, per=60), 10),
        (RateLimit(600, per=60), 1),
        (RateLimit(100, per=0.5), 20),
        (RateLimit(3), 1),
        (RateLimit(100, per=60, burst=7), 7),
    ],
    ids=str,
)
def test_the_burst_is_what_a_tenth_of_a_second_allows_unless_chosen(
    limit: RateLimit, burst: int
) -> None:
    spec = QueueSpec("jobs", QueueKeys.of("jobs"), QueueConfig(), 1.0, outside=FIXED)
    request: Any = next(permit(spec, limit, 1, 0))
    assert request.args[-1] == burst
