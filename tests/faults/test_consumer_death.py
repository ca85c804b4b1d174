"""A consumer may die or freeze at any instant: nothing is lost, and nothing waits for it."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import ackq
from ackq.embedded import Server
from tests.waiting import wait_until

from .children import child, end, freeze
from .proxy import Proxy
from .roles import read_log, take_two_then_settle, wait_for_one

MakeQueue = Callable[..., ackq.Queue]

LEASE = 0.15  # seconds; what a dead consumer held comes back so soon


def blocked(client: redis.Redis) -> int:
    info: Any = client.info("clients")
    return int(info["blocked_clients"])


def rescue(queue: ackq.Queue, count: int) -> dict[str, int]:
    """Take and ack ``count`` messages, and return their receive counts."""
    counts: dict[str, int] = {}
    for _ in range(count):
        message = queue.pop(timeout=10, visibility_timeout=30)
        assert message is not None, f"only {counts} came"
        counts[message.id] = message.receive_count
        assert queue.ack(message) == 1
    return counts


def die_at(
    fatal: int, server: Server, client: redis.Redis, journal: Path, queue: ackq.Queue
) -> bool:
    """Kill a consumer at one boundary, check the queue, and return whether it got that far."""
    pushed = {f"{fatal}-{number}" for number in range(3)}
    with child(take_two_then_settle, server.url, "jobs", journal, fatal, LEASE) as consumer:
        wait_until(
            lambda: blocked(client) or consumer.exitcode is not None, "it to wait, or to be dead"
        )
        queue.push_many([{"id": each} for each in sorted(pushed)])
        consumer.join(20)
        killed = consumer.exitcode == -9
        assert killed or consumer.exitcode == 0
    acked = {event["acked"] for event in read_log(journal)} & pushed
    context: dict[bytes, bytes] = client.hgetall("jobsCONTEXT")  # type: ignore[assignment]
    taken = {key.decode() for key in context}
    lists: list[list[Any]] = [client.lrange(key, 0, -1) for key in ("jobs", "jobsHANDOFF")]
    waiting = {body[7:-2].decode() for listed in lists for body in listed}
    assert not taken & waiting
    assert acked.isdisjoint(taken | waiting)
    if killed:
        # One ack may have been applied although its reply was not read.
        assert len(pushed - acked - taken - waiting) <= 1
    else:
        assert acked | taken | waiting == pushed
    assert queue.audit().sound
    expected = dict.fromkeys(taken, 2) | dict.fromkeys(waiting, 1)
    assert rescue(queue, len(expected)) == expected
    assert queue.stats().ready == queue.stats().in_flight == 0
    return killed


def test_a_consumer_that_dies_at_any_boundary_loses_nothing(
    server: Server, client: redis.Redis, journal: Path, queue: ackq.Queue
) -> None:
    boundaries = 0
    for fatal in itertools.count(1):
        if not die_at(fatal, server, client, journal, queue):
            break
        boundaries += 1
    # Before it sends, when it has sent, when it has read: pop, BLMOVE and pop, ack, pop, fused.
    assert boundaries >= 16


def test_a_consumer_killed_as_it_is_handed_a_message_loses_nothing(
    server: Server, client: redis.Redis, journal: Path, queue: ackq.Queue
) -> None:
    for number in range(10):
        with child(wait_for_one, server.url, "jobs", journal) as consumer:
            wait_until(lambda: blocked(client), "the consumer to wait")
            queue.push({"id": str(number)})
            end(consumer)
        got = {event["got"] for event in read_log(journal)}
        in_flight = client.zcard("jobsBACKUP")
        waiting = client.llen("jobs") + client.llen("jobsHANDOFF")
        assert in_flight + waiting == 1, f"lost; it had got {got}"
        if waiting:
            assert rescue(queue, 1) == {str(number): 1}
        else:
            queue.purge()


def test_a_message_handed_to_a_frozen_waiter_is_redelivered_when_its_lease_ends(
    server: Server, client: redis.Redis, journal: Path, queue: ackq.Queue
) -> None:
    go = journal.with_name("go")
    with (
        child(wait_for_one, server.url, "jobs", journal, go) as live,  # its lease does not end
        child(wait_for_one, server.url, "jobs", journal, None, LEASE) as frozen,
    ):
        wait_until(lambda: blocked(client) == 1, "the first to wait")
        freeze(frozen)
        # Its BLMOVE still stands at the head of the line, for at most a second.
        go.touch()
        wait_until(lambda: blocked(client) == 2, "the second to wait behind it", 0.9)
        queue.push_many([{"id": "m"}, {"id": "n"}])
        wait_until(lambda: read_log(journal) != [], "the live one to get the other message", 3)
        live.join(5)
    assert read_log(journal) == [{"got": "n"}]
    message = queue.pop(timeout=5)
    assert message is not None
    assert (message.id, message.receive_count) == ("m", 2)
    queue.purge()


@contextlib.contextmanager
def cut_waiter(proxy: Proxy, journal: Path, client: redis.Redis) -> Iterator[None]:
    with child(wait_for_one, proxy.url, "jobs", journal):
        wait_until(lambda: blocked(client) == 1, "the consumer to wait")
        proxy.cut()
        yield


def test_a_waiter_whose_connection_is_cut_goes_on_waiting(
    proxy: Proxy, server: Server, client: redis.Redis, journal: Path, queue_at: MakeQueue
) -> None:
    with cut_waiter(proxy, journal, client):
        wait_until(lambda: proxy.count(b"BLMOVE") >= 2, "it to wait again")
        queue_at(server.url).push({"id": "m"})
        wait_until(lambda: read_log(journal) == [{"got": "m"}], "it to get the message", 5)


def test_a_push_while_the_waiter_is_cut_off_is_not_lost(
    proxy: Proxy, server: Server, client: redis.Redis, journal: Path, queue_at: MakeQueue
) -> None:
    with cut_waiter(proxy, journal, client):
        queue_at(server.url).push({"id": "m"})
        wait_until(lambda: read_log(journal) == [{"got": "m"}], "it to get the message", 5)


@pytest.mark.parametrize("verb", ["nack", "release", "extend", "reject"])
def test_settles_of_a_consumer_that_overslept_are_refused(
    queue: ackq.Queue, client: redis.Redis, verb: str
) -> None:
    queue.push({"id": "m"})
    stale = queue.pop(visibility_timeout=1e-6)
    assert stale is not None
    current = queue.pop(timeout=5, visibility_timeout=30)
    assert current is not None
    with pytest.raises(ackq.LeaseLost) as caught:
        getattr(queue, verb)(stale)
    assert caught.value.messages == (stale,)
    assert queue.ack(current) == 1
