"""A rejected row is a dead letter, once, however often its batch is replayed."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from ackq import ConfigurationError, KeyTypeError, Queue
from ackq.core.names import check_name
from ackq.errors import BatchSuperseded, QueueNameError
from ackq.queue.row_dead_letters import CHUNK_ROWS, RejectedRow
from ackq.queue.row_dead_letters_client import RowDeadLetters
from tests.servers import Target

Make = Callable[..., RowDeadLetters]


@pytest.fixture
def make(target: Target, name: str) -> Iterator[Make]:
    """``make(writer)``: a writer of dead letters of the test's queue."""
    opened: list[RowDeadLetters] = []

    def make(writer: str = "query", **settings: Any) -> RowDeadLetters:
        client = target.make_client()
        opened.append(RowDeadLetters(client, name, writer, **settings))
        client.close()
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def queue(target: Target, name: str) -> Iterator[Queue]:
    with target.make_client() as client, Queue(client, name) as queue:
        yield queue


def row(number: int, reason: str = "check: age") -> RejectedRow:
    return RejectedRow(f"1:{number}", b'{"id":"a-%d"}' % number, reason)


def write(writer: RowDeadLetters, batch: str, rows: list[RejectedRow]) -> int:
    """Begin a batch and write rows of it."""
    writer.begin(batch)
    return writer.reject(batch, rows)


def dead(queue: Queue) -> list[str]:
    return [letter.id for letter in queue.dead_letters(10_000)]


def test_a_row_becomes_a_dead_letter_as_it_was_pushed(make: Make, queue: Queue) -> None:
    body = b"\xff\0 no JSON at all"
    assert write(make(), "7", [RejectedRow("1:0", body, "does not parse"), row(1)]) == 2
    first, second = queue.dead_letters()
    assert (first.body, first.reason, first.receive_count) == (body, "does not parse", 1)
    assert abs(first.died_at - second.died_at) < 60
    assert (second.id, second.reason) == ("a-1", "check: age")


def test_a_batch_written_again_adds_nothing(make: Make, queue: Queue) -> None:
    rows = [row(number) for number in range(CHUNK_ROWS + 3)]
    assert write(make(), "7", rows) == CHUNK_ROWS + 3
    assert write(make(), "7", rows) == 0
    assert len(dead(queue)) == CHUNK_ROWS + 3


def test_a_batch_cut_short_is_completed_in_any_order(make: Make, queue: Queue) -> None:
    write(make(), "7", [row(2), row(0)])
    assert write(make(), "7", [row(0), row(1), row(2), row(3)]) == 2
    assert sorted(dead(queue)) == ["a-0", "a-1", "a-2", "a-3"]


def test_the_next_batch_forgets_the_rows_of_the_former(
    make: Make, queue: Queue, target: Target, name: str
) -> None:
    writer = make()
    write(writer, "7", [row(0)])
    write(writer, "8", [row(0)])
    assert dead(queue) == ["a-0", "a-0"]
    with target.make_client() as client:
        assert client.hgetall(f"{name}REJECTED:query") == {b"batch": b"8", b"row:1:0": b""}


def test_rows_of_a_batch_that_is_over_are_refused_and_change_nothing(
    make: Make, queue: Queue
) -> None:
    driver, task = make(), make()
    with pytest.raises(BatchSuperseded, match="its batch was none"):
        task.reject("7", [row(0)])
    write(driver, "7", [row(0)])
    driver.begin("8")
    with pytest.raises(BatchSuperseded, match=r"batch 7 of 'query' arrived when .* was 8"):
        task.reject("7", [row(0), row(1)])
    assert write(task, "8", [row(0)]) == 1
    driver.begin("8")  # as at a replay, which keeps the record
    assert task.reject("8", [row(0)]) == 0
    assert dead(queue) == ["a-0", "a-0"]


def test_writers_do_not_know_of_each_other(make: Make, queue: Queue) -> None:
    write(make("one"), "7", [row(0)])
    write(make("two"), "7", [row(0)])
    assert dead(queue) == ["a-0", "a-0"]


def test_only_the_memory_of_rows_expires(
    make: Make, queue: Queue, target: Target, name: str
) -> None:
    before = time.monotonic()
    write(make(window=60), "7", [row(0)])
    with target.make_client() as client:
        left = client.pttl(f"{name}REJECTED:query")
        passed = (time.monotonic() - before) * 1000
        assert 59_000 - passed < left <= 60_000
        assert client.pttl(f"{name}DEAD") == -1


def test_no_rows_are_no_call(make: Make, queue: Queue) -> None:
    assert make().reject("7", []) == 0


def test_a_letter_can_be_redriven_with_or_without_an_id(make: Make, queue: Queue) -> None:
    write(
        make(),
        "7",
        [
            row(0),
            RejectedRow("1:1", b"no id", "does not parse"),
            RejectedRow("1:2", b"", "does not parse"),
        ],
    )
    assert queue.redrive() == 3
    assert sorted(each.body for each in queue.pop_many(10)) == [b"", b"no id", b'{"id":"a-0"}']


def test_a_key_of_another_type_is_an_error_and_nothing_is_changed(
    make: Make, queue: Queue, target: Target, name: str
) -> None:
    with target.make_client() as client:
        for suffix in ("REJECTED:query", "DEAD"):
            client.set(f"{name}{suffix}", "mine")
            with pytest.raises(KeyTypeError, match=suffix):
                write(make(), "7", [row(0)])
            assert client.get(f"{name}{suffix}") == b"mine"
            client.delete(f"{name}{suffix}")
        assert not client.exists(f"{name}REJECTED:query")


def test_it_works_on_a_full_server(make: Make, target: Target, name: str, queue: Queue) -> None:
    if target.cluster:
        pytest.skip("one server shows it")
    with target.make_client() as client:
        assert isinstance(client, redis.Redis)
        write(make(), "7", [row(0)])
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", used // 2)
        try:
            assert write(make(), "7", [row(1)]) == 1  # of a batch that is on its way
            assert write(make(), "8", [row(0)]) == 1
        finally:
            client.config_set("maxmemory", 0)


def test_arguments_out_of_range_are_refused(target: Target, name: str) -> None:
    from ackq import scripts

    text = scripts.load("pipeline/reject").text
    with target.make_client() as client:
        for args in (
            ("7", 0, "r", "", "b", ""),
            ("7", "nan", "r", "", "b", ""),
            ("", 1, "r", "", "b", ""),
            ("7",),
            ("7", 1, "r", "", "b"),
            ("x" * 65, 1, "r", "", "b", ""),
            ("7", 1, *["r"] * 4004),
        ):
            with pytest.raises(redis.ResponseError, match="ACKQ_ARGUMENT"):
                client.eval(text, 2, f"{name}DEAD", f"{name}REJECTED:q", *map(str, args))
        assert not client.exists(f"{name}DEAD")


def test_a_window_out_of_range_is_refused(make: Make) -> None:
    for window in (0, -1, float("nan"), 1e12):
        with pytest.raises(ConfigurationError, match="window"):
            make(window=window)


def test_no_queue_may_be_called_like_the_memory_of_another() -> None:
    with pytest.raises(QueueNameError, match="REJECTED:"):
        check_name("jobsREJECTED:query")
