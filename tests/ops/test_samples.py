"""What is known of queues from one reading to the next, and how it is shown."""

import pytest
import redis

from ackq import Queue
from ackq.ops.figures import count, rate, span
from ackq.ops.overview import Overview
from ackq.ops.readings import Reading, Totals, lease_age
from ackq.ops.samples import UNKNOWN, Row, arranged, interval_for, rates
from tests.waiting import wait_until


def test_numbers_are_short() -> None:
    assert [span(each) for each in (0.4, 99, 121, 7320)] == ["0 s", "99 s", "2 min", "2 h"]
    assert [count(each) for each in (0, 999_999, 12_345_678)] == ["0", "999,999", "12.35M"]
    shown = [rate(each) for each in (None, 0, 0.25, 12.5, 9999, 12_345)]
    assert shown == ["-", "0", "0.2", "12", "9,999", "12.3k"]


def test_rates_are_what_happened_between_two_readings(plain_client: redis.Redis, name: str) -> None:
    with (
        Queue(plain_client, name, visibility_timeout=30) as queue,
        Overview(plain_client, [name], window=60) as overview,
    ):
        queue.push_many([{"n": number} for number in range(10)])
        queue.pop(visibility_timeout=0.001)
        (first,) = overview.read().queues
        queue.push_many([{"n": number} for number in range(5)])
        wait_until(lambda: queue.stats().expired, "the lease to end")
        done = queue.pop_many(4)
        queue.ack(*done[:2])
        queue.reject(done[2])
        (second,) = overview.read().queues
    assert first.totals is not None
    assert second.totals is not None
    seconds = (second.totals.at or 0) - (first.totals.at or 0)
    found = rates(second, first, 1e9)
    expected = {"pushed": 5, "taken": 4, "acked": 2, "returned": 1}
    assert found == pytest.approx({name: each / seconds for name, each in expected.items()})
    assert second.lease_age == pytest.approx(0, abs=5)
    assert second.states["dead"] == 1
    assert second.totals.dead == {"rejected": 1}
    assert set(rates(second, None, 1.0).values()) == {None}


def test_counts_that_began_anew_are_not_compared() -> None:
    now, before = counted(since=2.0, taken=5), counted(since=1.0, taken=100)
    assert rates(now, before, 1.0)["taken"] is None
    assert rates(now, counted(since=2.0, taken=1), 1.0)["taken"] == 4
    assert rates(now, counted(since=2.0, taken=1), 0.0)["taken"] is None


def test_nothing_is_said_of_pushes_where_messages_were_dropped() -> None:
    found = rates(counted(pushed=1), counted(pushed=5), 1.0)
    assert (found["pushed"], found["taken"], found["acked"]) == (None, 0, None)


@pytest.mark.parametrize(
    ("left", "timeouts", "age"),
    [
        (20.0, {30: 1}, 10.0),
        (30.05, {30: 1}, 0.0),  # jitter
        (20.0, {30: 1, 60: 1}, None),
        (20.0, {}, None),
        (20.0, {0: 1}, None),
        (600.0, {30: 1}, None),  # a lease from before
        (-5.0, {30: 1}, None),
        (None, {30: 1}, None),
    ],
)
def test_a_lease_is_as_old_as_the_only_timeout_says(
    left: float | None, timeouts: dict[int, int], age: float | None
) -> None:
    assert lease_age(left, timeouts) == age


def counted(*, since: float = 2.0, taken: int = 0, pushed: int = 0) -> Reading:
    return Reading("list", "jobs", 0, totals=Totals(since, {"taken": taken, "pushed": pushed}))


def test_many_queues_are_read_less_often() -> None:
    assert interval_for(10, 1.0) == 1.0
    assert interval_for(1000, 1.0) == pytest.approx(12.0)  # of which Redis is busy for 93 ms


def rows_of(*backlogs: int) -> list[Row]:
    return [
        Row(Reading("list", f"q{n}", each, {"dead": 9 - n}), UNKNOWN)
        for n, each in enumerate(backlogs)
    ]


def test_rows_are_sorted_by_name_or_with_the_largest_first() -> None:
    rows = rows_of(1, 5, 3)

    def order(*how: object) -> list[str]:
        return [row.reading.name for row in arranged(rows, *how)]  # type: ignore[arg-type]

    assert order("name") == order("dead") == ["q0", "q1", "q2"]
    assert order("backlog") == ["q1", "q2", "q0"]
    assert order("backlog", True) == ["q0", "q2", "q1"]
