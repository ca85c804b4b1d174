"""A batch goes into a delay queue once, and a key that is taken loses no message."""

from collections.abc import Callable
from typing import Any

import pytest

from ackq import ConfigurationError, InvalidMessage
from ackq.delay import DelayEntry, DelayQueue, PartitionedDelayQueue
from ackq.delay.staging_client import DelayStaging
from tests.servers import Target
from tests.staging.test_staging import commit_and_die, keys, stage

Make = Callable[..., DelayStaging]
Open = Callable[..., Any]


@pytest.fixture(params=[None, 4], ids=["plain", "partitioned"])
def partitions(request: pytest.FixtureRequest) -> int | None:
    value: int | None = request.param
    return value


@pytest.fixture
def delays(opened: Open, name: str, partitions: int | None) -> DelayQueue | PartitionedDelayQueue:
    if partitions is None:
        made: DelayQueue = opened(DelayQueue, name)
        return made
    shared: PartitionedDelayQueue = opened(PartitionedDelayQueue, name, partitions)
    return shared


@pytest.fixture
def writer(make_delay_writer: Make, partitions: int | None) -> DelayStaging:
    return make_delay_writer(partitions=partitions)


def entries(writer: DelayStaging, count: int, due: int = 0) -> list[bytes]:
    return [writer.row(f"k-{n}", due, b"body:%d:x" % n) for n in range(count)]


def taken(delays: Any) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    while messages := delays.take(1000):
        for message in messages:
            assert message.key not in found
            found[message.key] = message.body
            delays.delete(message)
    return found


def expected(count: int) -> dict[str, bytes]:
    return {f"k-{n}": b"body:%d:x" % n for n in range(count)}


def test_rows_become_messages_with_the_commit(
    writer: DelayStaging, delays: Any, target: Target, name: str
) -> None:
    staged = stage(writer, 0, entries(writer, 2500))
    assert delays.take(10) == []
    assert writer.commit(0, [staged]) == 2500
    assert taken(delays) == expected(2500)
    assert not {key for key in keys(target, name) if "staged" in key or "held" in key}


def test_rows_are_ready_at_their_time(writer: DelayStaging, delays: Any) -> None:
    due = writer.now() + 3600 * 1_000_000
    writer.commit(0, [stage(writer, 0, [*entries(writer, 5), writer.row("later", due, b"x")])])
    assert taken(delays) == expected(5)
    assert delays.stats().delayed == 1


@pytest.mark.parametrize(
    "requests", [1, 3, *(pytest.param(each, marks=pytest.mark.campaign) for each in (2, 4))]
)
def test_a_driver_may_die_after_any_request_of_a_commit(
    writer: DelayStaging,
    make_delay_writer: Make,
    delays: Any,
    partitions: int | None,
    requests: int,
) -> None:
    commit_and_die(writer, 3, [stage(writer, 3, entries(writer, 2500))], requests)
    # What arrived is taken and gone before the batch is replayed, which must not bring it back.
    first = taken(delays)
    again = make_delay_writer(partitions=partitions)
    again.commit(3, [stage(again, 3, entries(again, 2500), "0-b")])
    second = taken(delays)
    assert not first.keys() & second.keys()
    assert first | second == expected(2500)


def test_a_key_that_is_stored_with_the_same_body_is_that_message(
    writer: DelayStaging, delays: Any
) -> None:
    delays.push_many([DelayEntry("k-1", b"body:1:x", at=4e9)])
    writer.commit(0, [stage(writer, 0, entries(writer, 3))])
    assert taken(delays).keys() == {"k-0", "k-2"}
    assert delays.stats().dead == 0


def test_a_key_that_is_stored_with_another_body_makes_a_dead_letter(
    writer: DelayStaging, delays: Any
) -> None:
    delays.push_many([DelayEntry("k-1", b"another", at=4e9)])
    writer.commit(0, [stage(writer, 0, entries(writer, 3))])
    assert taken(delays).keys() == {"k-0", "k-2"}
    letters = [(letter.id, letter.body, letter.reason) for letter in delays.dead_letters(10)]
    assert letters == [("k-1", b"body:1:x", "duplicate key")]


def test_any_key_and_any_body_arrive_as_they_are(
    make_delay_writer: Make, opened: Open, name: str
) -> None:
    writer, delays = make_delay_writer(), opened(DelayQueue, name)
    pairs = {"a:b": b"", ":": b"1:2:3:x", "5:5:5:5": b"\0\xff\n%", "ü" * 256: b"x" * 5000}
    writer.commit(0, [stage(writer, 0, [writer.row(key, 0, pairs[key]) for key in pairs])])
    assert taken(delays) == pairs


def test_a_key_and_a_time_that_cannot_be_are_refused(make_delay_writer: Make) -> None:
    writer = make_delay_writer()
    with pytest.raises(InvalidMessage):
        writer.row("", 0, b"x")
    with pytest.raises(ConfigurationError):
        writer.row("k", -1, b"x")
