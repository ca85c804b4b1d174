"""Inspecting a delay queue takes nothing; a purge deletes everything, on every server."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from ackq.delay import DelayEntry, DelayQueue
from ackq.errors import ConfigurationError, KeyTypeError
from tests.delay.conftest import MakeDelay
from tests.servers import Target
from tests.waiting import wait_until

MIB = 1024 * 1024


def snapshot(target: Target, name: str) -> dict[bytes, Any]:
    """Return every key of the topic as it is stored."""
    return {key: target.control.dump(key) for key in target.control.scan_iter(f"{name}:*")}


def seen(queue: Any, state: str) -> list[str]:
    return [each.id for each in queue.peek(10, state)]


def pages(queue: Any, size: int, state: str = "ready") -> Iterator[list[str]]:
    """Walk, and yield what each page shows."""
    cursor: Any = None
    for _ in range(200):
        found, cursor = queue.peek_page(size, state, **({"cursor": cursor} if cursor else {}))
        assert len(found) <= size
        yield [each.id for each in found]
        if cursor is None:
            return
    pytest.fail("the walk does not end")


def read(client: redis.Redis, command: str) -> int:
    """Return how often the server has run a command."""
    return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


@pytest.mark.parametrize("partitions", [None, 1])
def test_each_state_shows_its_own_soonest_first_and_nothing_is_taken(
    make_delay: MakeDelay, target: Target, name: str, partitions: int | None
) -> None:
    queue = make_delay(partitions)
    queue.push_many([DelayEntry("tomorrow", b"4", 86_400), DelayEntry("soon", b"3", 60)])
    queue.push("held", b"\xff")
    (held,) = queue.take()
    queue.push_many([DelayEntry("second", b"2", at=2), DelayEntry("first", b"1", at=1.5)])
    before = snapshot(target, name)
    assert [(each.id, each.body, each.at, each.receive_count) for each in queue.peek()] == [
        ("first", b"1", 1.5, 0),
        ("second", b"2", 2, 0),
    ]
    (flying,) = queue.peek(10, "in_flight")
    assert (flying.id, flying.body, flying.receive_count) == ("held", b"\xff", 1)
    assert flying.at == pytest.approx(held.lease_expires_at)
    assert seen(queue, "delayed") == ["soon", "tomorrow"]
    assert queue.peek(1, "delayed")[0].at > held.ready_time + 50  # type: ignore[operator]
    assert queue.peek(0) == []
    assert snapshot(target, name) == before


def test_the_figures_of_all_partitions_are_added_up(make_delay: MakeDelay) -> None:
    queue = make_delay(2)
    queue.push_many(
        DelayEntry(f"{n}-{partition}", b"x", delay=300 * n + 300 * partition, partition=partition)
        for n in range(3)
        for partition in range(2)
    )
    assert queue.stats().next_event_in == 0
    (held,) = queue.take()
    queue.push("ended", b"x")
    assert queue.take(visibility_timeout=0.001)
    wait_until(lambda: queue.stats().ready, "the lease to end")
    now = queue.stats()
    assert (now.ready, now.in_flight, now.delayed, now.next_event_in) == (1, 1, 5, 0)
    queue.cancel("ended")
    queue.extend(held, timeout=900)
    assert 250 < (queue.stats().next_event_in or 0) <= 300
    queue.purge()
    assert queue.stats().next_event_in is None


def test_what_is_leased_is_not_delayed_wherever_its_lease_ends(delay: Any) -> None:
    delay.push_many([DelayEntry(f"held-{n}", b"x") for n in range(40)])
    for n in range(40):
        assert delay.take(1, visibility_timeout=50 + n)
        delay.push(f"later-{n}", b"x", delay=50.5 + n)
    assert seen(delay, "delayed") == [f"later-{n}" for n in range(10)]
    assert list(pages(delay, 40, "delayed")) == [[f"later-{n}" for n in range(40)]]


def test_a_lease_that_ended_is_ready_and_has_its_count(delay: Any) -> None:
    delay.push("a", b"x")
    delay.take(1, visibility_timeout=0.001)
    wait_until(lambda: delay.stats().ready, "the lease to end")
    assert [(each.id, each.receive_count) for each in delay.peek()] == [("a", 1)]
    assert seen(delay, "in_flight") == []
    (message,) = delay.take()
    delay.nack(message, delay=60)
    assert [(each.id, each.receive_count) for each in delay.peek(1, "delayed")] == [("a", 2)]
    assert seen(delay, "in_flight") == []


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pages_go_through_all_partitions_and_all_of_each(make_delay: MakeDelay, size: int) -> None:
    queue = make_delay(3)
    keys = {f"k{n}" for n in range(60)}
    queue.push_many(DelayEntry(key, b"x", at=1) for key in keys)
    walked = [key for page in pages(queue, size) for key in page]
    assert len(walked) == 60
    assert set(walked) == keys
    assert [each.id for each in queue.peek(60)] == walked


def test_a_peek_brings_more_than_a_page_and_a_page_is_bounded(make_delay: MakeDelay) -> None:
    queue = make_delay()
    queue.push_many(DelayEntry(f"{n:04}", b"x", at=1) for n in range(1005))
    assert [each.id for each in queue.peek(2000)] == [f"{n:04}" for n in range(1005)]
    queue.purge()
    queue.push_many(DelayEntry(f"{n}", b"x" * (3 * MIB // 8), at=1) for n in range(5))
    found, cursor = queue.peek_page()
    assert [each.id for each in found] == ["0", "1", "2"]
    assert [each.id for each in queue.peek_page(cursor=cursor)[0]] == ["3", "4"]  # type: ignore[arg-type]
    assert len(queue.peek(5)) == 5


Touch = Callable[[Any, str], object]


@pytest.mark.parametrize(
    ("state", "touch"),
    [
        ("ready", lambda queue, key: queue.cancel(key)),
        ("ready", lambda queue, key: queue.reschedule(key, at=0.5)),
        ("delayed", lambda queue, key: queue.cancel(key)),
        ("delayed", lambda queue, key: queue.reschedule(key, delay=86_400)),
        ("in_flight", lambda queue, key: queue.cancel(key, in_flight=True)),
    ],
    ids=["cancel", "sooner", "cancel-delayed", "later", "cancel-held"],
)
@pytest.mark.parametrize("size", [1, 3])
def test_a_walk_shows_what_stays_once_whatever_happens_to_the_rest(
    delay: Any, target: Target, name: str, state: str, touch: Touch, size: int
) -> None:
    # Twelve with each time, so that their keys decide the order too, byte by byte.
    keys = [f"{end}{n:02}" for n in range(9) for end in ("", "a", "B", "é", "\udcff", "a\0")]
    if state == "in_flight":
        delay.push_many(DelayEntry(key, b"x") for key in keys)
        delay.take(len(keys))
        for at, key in enumerate(keys):
            target.control.zadd(f"{name}:leases", {key_bytes(key): 2**52 + at // 12})
    else:
        first = 1 if state == "ready" else 4e9
        delay.push_many(DelayEntry(key, b"x", at=first) for key in keys)
        for n, key in enumerate(keys):
            target.control.zadd(f"{name}:z", {key_bytes(key): first + n // 12})
    untouched = set(keys[::3])
    walked: list[str] = []
    gone: set[str] = set()
    for page in pages(delay, size, state):
        walked += page
        # The page's own, its last one too, and one or two that it has not come to.
        for key in {*page, *sorted(set(keys) - set(walked) - gone)[:2]} - untouched - gone:
            touch(delay, key)
            gone.add(key)
    assert [key for key in walked if key in untouched] == sorted(
        untouched, key=lambda key: (keys.index(key) // 12, key_bytes(key))
    )


def key_bytes(key: str) -> bytes:
    return key.encode(errors="surrogateescape")


@pytest.mark.parametrize("remove", [False, True])
def test_equal_times_go_by_the_bytes_of_their_keys(
    delay: Any, target: Target, name: str, remove: bool
) -> None:
    keys = [
        b"",
        b"\0",
        b"\0\0",
        b"A",
        b"AB",
        b"AC",
        b"B",
        b"a",
        b"a\0",
        b"a\0b",
        b"\x7f",
        b"\x80",
        b"\xff",
    ]
    target.control.zadd(f"{name}:z", dict.fromkeys(keys, 1))
    walked = []
    for page in pages(delay, 1):
        walked += [key_bytes(key) for key in page]
        if remove:
            target.control.zrem(f"{name}:z", *walked)
    assert walked == keys


@pytest.mark.parametrize("remove", [False, True])
def test_any_number_that_others_wrote_as_a_time_has_its_place(
    delay: Any, target: Target, name: str, remove: bool
) -> None:
    ready = [-math.inf, -1e300, -1e12, 0.0, 0.1, 1e9 + 1 / 3, 1.5e9 + 1e-6]
    later = [1.7e12, 1e300, math.inf]
    for state, times in (("ready", ready), ("delayed", later)):
        target.control.zadd(f"{name}:z", {f"{at!r}": at for at in times})
        walked: list[str] = []
        for page in pages(delay, 1, state):
            if remove:
                target.control.zrem(f"{name}:z", *page or ["none"])
            else:
                assert [each.at for each in delay.peek(9, state)] == times
            walked += page
        assert walked == [f"{at!r}" for at in times]


def test_one_call_looks_past_a_thousand_that_are_leased(
    delay: Any, target: Target, name: str
) -> None:
    held = {f"{n:04}": 3e9 for n in range(999)}
    target.control.zadd(f"{name}:leases", dict.fromkeys([*held, "last held"], 3e15))
    target.control.zadd(f"{name}:z", {**held, "later": 4e9, "last": 5e9})
    found, cursor = delay.peek_page(1, "delayed")
    assert [each.id for each in found] == ["later"]
    assert [each.id for each in delay.peek_page(1, "delayed", cursor=cursor)[0]] == ["last"]
    target.control.zadd(f"{name}:z", {"last held": 3e9})
    found, cursor = delay.peek_page(1, "delayed")
    assert found == []
    assert [each.id for each in delay.peek_page(1, "delayed", cursor=cursor)[0]] == ["later"]
    assert seen(delay, "delayed") == ["later", "last"]


def test_what_is_long_is_read_one_at_a_time(plain_client: redis.Redis, name: str) -> None:
    queue = DelayQueue(plain_client, name)
    short = {f"{n:04}": n for n in range(900)}
    long = {f"long {n}": 1000 + n for n in range(6)}
    plain_client.zadd(f"{name}:z", {**short, **long})
    plain_client.hset(f"{name}:h", mapping=dict.fromkeys(long, b"x" * (3 * MIB // 8)))
    listed, bodies = read(plain_client, "zrange"), read(plain_client, "hget")
    assert len(queue.peek(900)) == 900
    assert read(plain_client, "zrange") - listed < 100
    found, cursor = queue.peek_page()
    assert [each.id for each in found[900:]] == ["long 0", "long 1", "long 2"]
    # Those that came, and none that had to stay.
    assert read(plain_client, "hget") - bodies == 900 + 903
    listed = read(plain_client, "zrange")
    assert cursor
    found, _ = queue.peek_page(cursor=cursor)
    assert [each.id for each in found] == ["long 3", "long 4", "long 5"]
    assert read(plain_client, "zrange") - listed == 3
    plain_client.delete(f"{name}:z", f"{name}:h")
    plain_client.zadd(f"{name}:z", {bytes([n]) * (3 * MIB // 8): n for n in range(5)})
    assert [len(page) for page in pages(queue, 1000)] == [3, 2]
    plain_client.zadd(f"{name}:leases", {bytes([n]) * (3 * MIB // 8): 2**52 for n in range(5)})
    plain_client.zadd(f"{name}:z", {bytes([n]) * (3 * MIB // 8): 4e9 for n in range(5)})
    assert [len(page) for page in pages(queue, 1000, "delayed")] == [0, 0]
    queue.close()


@pytest.mark.parametrize("value", ["1e30", "nan", "inf", "-1", "1.5", "x", ""])
def test_what_is_no_count_counts_for_nothing(
    delay: DelayQueue, target: Target, name: str, value: str
) -> None:
    delay.push("held", b"x")
    delay.take()
    delay.push("a", b"x")
    target.control.hset(f"{name}:receives", mapping={"a": value, "held": value})
    assert [each.receive_count for each in delay.peek()] == [0]
    assert [each.receive_count for each in delay.peek(1, "in_flight")] == [1]


def test_what_others_put_off_after_its_lease_is_delayed(
    delay: Any, target: Target, name: str
) -> None:
    delay.push("a", b"x")
    delay.take(1, visibility_timeout=0.001)
    wait_until(lambda: delay.stats().ready, "the lease to end")
    target.control.zadd(f"{name}:z", {"a": 2**33 - 1})
    assert (seen(delay, "ready"), seen(delay, "delayed")) == ([], ["a"])


def test_what_others_left_half_stored_is_shown_as_far_as_it_is_there(
    delay: Any, target: Target, name: str
) -> None:
    target.control.zadd(f"{name}:z", {"no body": 1})
    target.control.hset(f"{name}:h", "no time", "x")
    target.control.zadd(f"{name}:leases", {"no message": 2**52})
    assert [(each.id, each.body) for each in delay.peek()] == [("no body", b"")]
    assert seen(delay, "in_flight") == []


def test_a_count_that_is_no_number_stops_no_take(
    delay: DelayQueue, target: Target, name: str
) -> None:
    delay.push("a", b"x")
    target.control.hset(f"{name}:receives", "a", "x")
    (message,) = delay.take()
    assert (message.key, message.receive_count, delay.delete(message)) == ("a", 1, 1)


def test_a_bad_look_is_refused(make_delay: MakeDelay, target: Target, name: str) -> None:
    queue = make_delay(2)
    for state in ("dead", "", None):
        with pytest.raises(ConfigurationError, match="state"):
            queue.peek(1, state)  # type: ignore[arg-type]
    for n in (-1, 1.5, "1"):
        with pytest.raises(ConfigurationError, match="peek"):
            queue.peek(n)  # type: ignore[arg-type]
    for n in (0, 1001):
        with pytest.raises(ConfigurationError, match="n is"):
            queue.peek_page(n)
    for cursor, problem in (
        (None, "there are no more pages"),
        ((), "a tuple that peek_page"),
        ((0, None), "a tuple"),
        ([0, None, ""], "a tuple"),
        ("abc", "a tuple"),
        ((2, None, ""), "partition of a cursor"),
        ((-1, None, ""), "partition of a cursor"),
        ((True, None, ""), "partition of a cursor"),
        (("0", None, ""), "partition of a cursor"),
        ((0, "1", "k"), "score of a cursor"),
        ((0, 10**400, "k"), "score of a cursor"),
        ((0, math.nan, "k"), "score of a cursor"),
        ((0, 1.0, None), "key of a cursor"),
        ((0, 1.0, b"k"), "key of a cursor"),
        ((0, 1.0, "\ud800"), "key of a cursor"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            queue.peek_page(cursor=cursor)  # type: ignore[arg-type]
    target.control.set(f"{name}:1:z", "a string")
    with pytest.raises(KeyTypeError, match=f"{name}:1:z"):
        queue.peek()


@pytest.mark.parametrize("partitions", [None, 3])
def test_a_purge_deletes_all_and_keeps_the_dead_unless_asked(
    make_delay: MakeDelay, target: Target, name: str, partitions: int | None
) -> None:
    queue = make_delay(partitions)

    def fill() -> None:
        queue.push_many(DelayEntry(f"k{n}", b"x", at=1) for n in range(20))
        queue.reject(*queue.take(2))
        queue.nack(*queue.take(3), delay=60)
        queue.extend(*queue.take(4))

    fill()
    assert queue.purge() == 18
    now = queue.stats()
    assert (now.ready, now.in_flight, now.delayed, now.dead) == (0, 0, 0, 2)
    kept = {key for key in target.control.scan_iter(f"{name}:*") if not key.endswith(b":dead")}
    assert kept <= {f"{name}:{part}".encode() for part in ("members", "group", "owners")}
    fill()
    assert queue.purge(dead=True) == 22
    assert queue.stats().dead == queue.purge(dead=True) == 0
    queue.push("k1", b"new")
    (message,) = queue.take(timeout=5)
    assert (message.body, message.receive_count) == (b"new", 1)


def test_a_purge_that_meets_another_type_deletes_nothing(
    make_delay: MakeDelay, target: Target, name: str
) -> None:
    queue = make_delay(2)
    queue.push_many([DelayEntry("a", b"x", partition=0), DelayEntry("b", b"x", partition=1)])
    target.control.set(f"{name}:1:receives", "a string")
    before = snapshot(target, name)
    with pytest.raises(KeyTypeError, match=f"{name}:1:receives"):
        queue.purge(dead=True)
    assert snapshot(target, name) == before
