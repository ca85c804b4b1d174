"""The past of queues: the record in Redis, its minutes, and who writes it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis

from ackq import Queue, scripts
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.errors import KeyTypeError
from ackq.ops.chronicle import minutes, recorder, store
from ackq.ops.chronicle.durations import BUCKETS, Durations
from ackq.ops.chronicle.minutes import MINUTE, Minute, TaskWork, Work, encoded, record, rows_in
from ackq.ops.chronicle.recorder import Recorder
from ackq.ops.chronicle.store import history_key
from ackq.ops.overview import Overview
from ackq.ops.readings import Reading, Totals
from tests.servers import Target

#: ``write("before", "version", "field", "value")``
Call = Callable[..., Any]
NOON = 1_800_000_000.0


@pytest.fixture
def write(target: Target, name: str) -> Call:
    text = scripts.load("history/store").text.decode()
    key = history_key("list", name)

    def run(before: str, version: str, *args: Any, lifetime: int = 60_000) -> Any:
        return target.control.eval(text, 1, key, before, version, lifetime, *args)

    return run


def stored(target: Target, name: str) -> dict[bytes, bytes]:
    control: Any = target.control
    return control.hgetall(history_key("list", name))  # type: ignore[no-any-return]


def test_a_record_holds_what_was_written(write: Call, target: Target, name: str) -> None:
    assert write("", "1", "a", "x", "b", "y") == 1
    assert write("1", "2", "a", "", "c", "z") == 1
    assert stored(target, name) == {b"v": b"2", b"b": b"y", b"c": b"z"}
    assert 0 < target.control.pttl(history_key("list", name)) <= 60_000


def test_a_record_that_others_have_written_is_left_alone(
    write: Call, target: Target, name: str
) -> None:
    assert write("", "mine", "a", "x") == 1
    assert write("", "late", "a", "y") == 0
    assert write("other", "late", "a", "y") == 0
    assert stored(target, name) == {b"v": b"mine", b"a": b"x"}


def test_a_write_whose_reply_was_lost_is_not_repeated(
    write: Call, target: Target, name: str
) -> None:
    assert write("", "1", "a", "x") == 1
    assert write("", "1", "a", "y") == 1
    assert stored(target, name) == {b"v": b"1", b"a": b"x"}


@pytest.fixture
def driver(plain_client: redis.Redis) -> Iterator[Driver]:
    driver = Driver(route_of(plain_client, b""))
    yield driver
    driver.route.close()


@pytest.fixture
def key(name: str) -> bytes:
    return history_key("list", name)


def reading(name: str, at: float, since: float = NOON, ready: int = 0, **counts: int) -> Reading:
    dead = {"rejected": counts.pop("rejected")} if "rejected" in counts else {}
    states = {"ready": ready, "in_flight": 0, "delayed": 0, "dead": 0}
    return Reading("list", name, ready, states, totals=Totals(since, counts, dead, at))


def rows(driver: Driver, key: bytes, now: float = NOON + 86_000) -> list[Minute]:
    return driver.run(minutes.read(key, now, 86_400.0))


def note(
    driver: Driver,
    key: bytes,
    seconds: float,
    work: Work | None = None,
    since: float = NOON,
    **counts: int,
) -> None:
    at = NOON + seconds
    now = reading("jobs", at, since, **counts)
    assert driver.run(record(key, now, at, f"{seconds} {counts} {id(work)}", work))


def test_the_sums_of_the_minutes_are_the_totals(driver: Driver, key: bytes) -> None:
    note(driver, key, 10, acked=3, pushed=5)
    note(driver, key, 50, acked=7, pushed=9)
    note(driver, key, 200, acked=8, pushed=9, rejected=2)
    note(driver, key, 190, acked=8, pushed=9)  # an older reading of another client: no news
    found = rows(driver, key)
    assert [(row.at - NOON, row.seconds) for row in found] == [(50, 50), (200, 150)]
    assert [row.counts for row in found] == [
        {"pushed": 9, "taken": 0, "acked": 7},
        {"pushed": 0, "taken": 0, "acked": 1},
    ]
    assert [row.dead for row in found] == [{}, {"rejected": 2}]


def test_a_row_ends_when_acks_do_and_a_minute_has_two_at_most(driver: Driver, key: bytes) -> None:
    note(driver, key, 0, acked=3)
    for seconds, acked in ((10, 4), (20, 4), (30, 4), (40, 5), (50, 5), (60, 6)):
        note(driver, key, seconds, acked=acked, nacked=seconds)
    shown = [
        (row.at - NOON, row.counts["acked"], row.counts["nacked"]) for row in rows(driver, key)
    ]
    assert shown == [(10, 4, 10), (50, 1, 40), (60, 1, 10)]


def test_counting_that_began_again_is_counted_from_then_on(driver: Driver, key: bytes) -> None:
    note(driver, key, 10, acked=300)
    note(driver, key, 500, since=NOON + 400, acked=4)
    assert [(row.seconds, row.counts["acked"]) for row in rows(driver, key)] == [
        (10, 300),
        (100, 4),
    ]


def test_the_counts_of_days_are_not_those_of_the_first_minute(driver: Driver, key: bytes) -> None:
    note(driver, key, 10, since=NOON - 9000, acked=300)
    note(driver, key, 70, since=NOON - 9000, acked=301)
    assert sum(row.counts.get("acked", 0) for row in rows(driver, key)) == 1


def test_a_client_that_may_not_count_takes_nothing_away(driver: Driver, key: bytes) -> None:
    note(driver, key, 10, acked=3)
    unknown = replace(reading("jobs", NOON + 70, ready=4), totals=None)
    assert driver.run(record(key, unknown, NOON + 70, "one"))
    note(driver, key, 130, acked=5)
    found = rows(driver, key)
    assert sum(row.counts.get("acked", 0) for row in found) == 5
    assert found[1].states[0] == 4


@pytest.mark.parametrize("tasks", [minutes.MAX_TASKS, 300])
def test_a_quiet_day_is_a_few_rows_and_a_busy_one_has_a_bound(
    driver: Driver, key: bytes, plain_client: redis.Redis, tasks: int
) -> None:
    for minute in range(3 * 60):
        note(driver, key, minute * MINUTE, ready=7)
    assert 3 <= len(rows(driver, key, NOON + 3 * 3600)) <= 4
    work = Work(Durations.of([9] * 16))
    for number in range(tasks):
        work.task(f"task {number} of a module with a long name").durations.add(0.1)
    row = Minute(int(NOON), 60, 10, (1, 2, 3, 4), 9.5, {"acked": 10}, {"rejected": 1}, work)
    (again,) = rows_in(encoded(row))
    assert len(encoded(row)) <= minutes.MAX_ROW
    assert sum(sum(each.durations.counts) for each in again.work.tasks.values()) == tasks
    assert again.work.durations == row.work.durations
    for minute in range(26 * 60):
        note(driver, key, 86_400 + minute * MINUTE, acked=minute)
    hours = [*plain_client.hscan_iter(key, "h*")]
    assert len(hours) <= minutes.HOURS + 2
    plain_client.delete(key)


def test_the_work_of_several_workers_is_one_row(driver: Driver, key: bytes) -> None:
    for _ in range(2):
        work = Work()
        work.durations.add(0.02)
        work.task("send").acked += 1
        work.task("send").durations.add(0.02)
        note(driver, key, 30, work, acked=1)
    (row,) = rows(driver, key)
    assert row.work.tasks == {"send": TaskWork(2, 0, 0, Durations.of([0, 0, 2]))}
    assert row.counts["acked"] == 1


def test_rows_that_cannot_be_read_are_left_out() -> None:
    good = encoded(Minute(60, 60, 1))
    lines = b"\n".join([b"", b"nonsense", b"[]", b"[1,2]", b'{"a":1}', good, good + b"x"])
    assert list(rows_in(lines)) == [Minute(60, 60, 1)]


def test_a_key_of_another_type_is_an_error(
    driver: Driver, key: bytes, plain_client: redis.Redis
) -> None:
    plain_client.set(key, "x")
    with pytest.raises(KeyTypeError, match="not a hash"):
        note(driver, key, 10, acked=1)
    plain_client.delete(key)


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [([], 0.5, None), ([4], 0.5, 0.0025), ([0, 2, 2], 0.5, 0.01), ([0] * 15 + [3], 0.9, 1800.0)],
)
def test_quantiles_follow_from_the_buckets(
    counts: list[int], share: float, expected: float | None
) -> None:
    assert Durations.of(counts).quantile(share) == expected
    assert len(Durations().counts) == len(BUCKETS) + 1


def test_what_watchers_read_is_recorded_once_a_minute(
    plain_client: redis.Redis, driver: Driver, name: str, key: bytes
) -> None:
    with (
        Queue(plain_client, name) as queue,
        Overview(plain_client, [name], window=60.0) as overview,
        Recorder(plain_client) as recording,
    ):
        queue.counters(60.0)
        queue.push_many([{"id": str(number)} for number in range(5)])
        queue.ack(queue.pop())  # type: ignore[arg-type]
        snapshot = overview.read()
        assert snapshot.at is not None
        start = snapshot.at // MINUTE * MINUTE
        for seconds in (0.0, 1.0, 2.0, 61.0):
            recording.note(replace(snapshot, at=start + seconds))
        (row,) = driver.run(minutes.read(key, snapshot.at, 3600.0))
        assert (row.counts["pushed"], row.counts["acked"], row.states[0]) == (5, 1, 4)
        written = plain_client.hget(key, "v")
        recording.note(replace(snapshot, at=start + 62.0))
        recording.note(replace(snapshot, at=start + 122.0))  # nothing has changed
        assert plain_client.hget(key, "v") == written
        queue.reject(*queue.pop_many(4))
        recording.note(overview.read())
        total = sum(row.dead.get("rejected", 0) for row in rows(driver, key, snapshot.at))
        assert total == 0  # this minute was recorded before
        late = overview.read()
        recording.note(replace(late, at=start + 200.0))
        assert rows(driver, key, snapshot.at)[-1].dead == {"rejected": 4}


def test_a_queue_without_messages_gets_no_record(
    plain_client: redis.Redis, name: str, key: bytes
) -> None:
    with Overview(plain_client, [name]) as overview, Recorder(plain_client) as recording:
        recording.note(overview.read())
    assert plain_client.exists(key) == 0


def test_a_user_that_may_not_write_can_still_look(
    plain_client: redis.Redis, name: str, key: bytes, token: str
) -> None:
    plain_client.acl_setuser(
        token, enabled=True, nopass=True, keys=["*"], commands=["+@all", "-hset"]
    )
    settings = plain_client.connection_pool.connection_kwargs
    client = redis.Redis(port=settings["port"], username=token, password="x")
    try:
        with Queue(plain_client, name) as queue:
            queue.push({"id": "a"})
        with Overview(client, [name]) as overview, Recorder(client) as recording:
            recording.note(overview.read())
            assert overview.read().queues[0].states["ready"] == 1
        assert plain_client.exists(key) == 0
    finally:
        client.close()
        plain_client.acl_deluser(token)


def test_every_kind_has_a_key_of_its_own() -> None:
    keys = {
        kind: history_key(kind, "jobs") for kind in ("list", "sharded", "delay", "topic", "rsmq")
    }
    assert len({*keys.values()}) == 5
    assert keys["sharded"] == history_key("list", "{jobs}:all")
    assert recorder.MAX_RECORDED > store.ATTEMPTS
