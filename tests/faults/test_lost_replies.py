"""A reply that never comes: a request that may not run twice is not sent again, and raises."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import redis

import ackq
from ackq import Queue, scripts
from ackq.embedded import Server
from ackq.membership.shards import shard_names
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.topic import Topic

from .proxy import PATIENCE, SILENCE, Kind, Proxy

LOST: list[Kind] = ["lose_reply", "swallow_reply"]
SCRIPT = (b"EVALSHA", b"EVAL")


@pytest.fixture
def read_timeout(request: pytest.FixtureRequest) -> float:
    """Seconds that a client waits for a reply: few only where none comes."""
    kind = request.node.callspec.params.get("kind")
    return SILENCE if kind == "swallow_reply" else PATIENCE


@pytest.fixture
def queue(proxy: Proxy, flavoured: Callable[..., Any], read_timeout: float) -> Any:
    """A queue behind the proxy."""
    url = f"{proxy.url}?socket_timeout={read_timeout}"
    queue = flavoured(ackq.Queue.from_url, ackq.AsyncQueue.from_url, url, "jobs")
    queue.stats()
    return queue


@pytest.fixture
def direct(server: Server, client: redis.Redis, queue_at: Callable[..., ackq.Queue]) -> ackq.Queue:
    """The same queue past the proxy, every script loaded: NOSCRIPT would be lost, too."""
    for name in scripts.names():
        client.script_load(scripts.load(name).text)
    return queue_at(server.url)


def filled(direct: ackq.Queue, queue: Queue, count: int) -> list[ackq.Message]:
    """Return messages that ``queue`` holds, its scripts loaded."""
    direct.push_many([{"id": str(number)} for number in range(count)])
    messages: list[ackq.Message] = queue.pop_many(count)
    assert len(messages) == count
    return messages


def end_lease(client: redis.Redis, id: str) -> None:
    """Let the time of a lease be over."""
    assert client.zadd("jobsBACKUP", {id: 1}, xx=True, ch=True) == 1


@pytest.mark.parametrize("kind", [*LOST, "cut_reply"])
def test_a_push_is_not_sent_again(
    proxy: Proxy, client: redis.Redis, queue: Queue, kind: Kind
) -> None:
    proxy.fail(b"LPUSH", kind)
    with pytest.raises(ackq.UnknownOutcome) as caught:
        queue.push({"id": "a"})
    assert isinstance(caught.value, redis.ConnectionError)
    assert proxy.count(b"LPUSH") == 1
    assert client.llen("jobs") == 1


def test_a_push_that_never_arrived_is_unknown_too(
    proxy: Proxy, client: redis.Redis, queue: Queue
) -> None:
    proxy.fail(b"LPUSH", "lose_request")
    with pytest.raises(ackq.UnknownOutcome):
        queue.push({"id": "a"})
    assert client.llen("jobs") == 0


@pytest.mark.parametrize("read_timeout", [SILENCE])
def test_a_late_reply_never_reaches_the_next_request(
    proxy: Proxy, client: redis.Redis, queue: Any
) -> None:
    proxy.fail(b"LPUSH", "delay", seconds=2 * SILENCE)
    with pytest.raises(ackq.UnknownOutcome):
        queue.push({"id": "a"})
    assert queue.stats().ready == 1
    message = queue.pop(timeout=1)
    assert message.id == "a"
    assert queue.ack(message) == 1


@pytest.mark.parametrize("kind", LOST)
def test_a_scheduled_push_is_not_sent_again(
    proxy: Proxy, client: redis.Redis, direct: ackq.Queue, queue: Queue, kind: Kind
) -> None:
    direct.push({"id": "first"}, delay=100)
    fault = proxy.fail(b"EVALSHA", kind)
    with pytest.raises(ackq.UnknownOutcome):
        queue.push({"id": "a"}, delay=100)
    assert fault.hit == 1
    assert direct.stats().delayed == 2


@pytest.mark.parametrize("kind", LOST)
def test_a_push_with_a_marker_is_sent_again_and_stored_once(
    proxy: Proxy, client: redis.Redis, direct: ackq.Queue, queue: Queue, kind: Kind
) -> None:
    assert direct.push({"id": "other"}, dedup="other") == "other"
    before = proxy.count(*SCRIPT)
    proxy.fail(b"EVALSHA", kind)
    pushed = queue.push({"id": "a"}, dedup="marker")
    assert pushed == "a"
    assert pushed.stored is None  # the second answer cannot tell
    assert proxy.count(*SCRIPT) - before == 2
    assert client.llen("jobs") == 2
    proxy.fail(b"EVALSHA", kind)
    assert queue.push({"id": "b"}, dedup="marker").stored is False


@pytest.mark.parametrize("product", ["queue", "topic"])
def test_a_push_with_a_marker_may_be_stored_although_its_repetition_is_refused(
    proxy: Proxy, client: redis.Redis, direct: ackq.Queue, queue: Queue, product: str
) -> None:
    url = f"{proxy.url}?socket_timeout={PATIENCE}"
    with contextlib.closing(Topic.from_url(url, "news")) as topic:
        topic.subscribe("reader")
        push: Any = queue.push if product == "queue" else topic.publish
        push({"id": "first"}, dedup="first")
        client.config_set("maxmemory", 1)
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            push({"id": "a"}, dedup="marker")
        proxy.fail(b"EVALSHA", "lose_reply")
        with pytest.raises(ackq.UnknownOutcome, match="same dedup"):
            push({"id": "a"}, dedup="marker")
    client.config_set("maxmemory", 0)


@pytest.mark.parametrize("kind", LOST)
def test_push_many_says_how_many_are_surely_stored(
    proxy: Proxy, client: redis.Redis, queue: Queue, kind: Kind
) -> None:
    proxy.fail(b"LPUSH", kind, skip=1)
    with pytest.raises(ackq.UnknownOutcome) as caught:
        queue.push_many([b"%d" % number for number in range(2500)])
    assert caught.value.stored == 1000
    assert caught.value.stored_positions == tuple(range(1000))
    assert caught.value.unknown_positions == tuple(range(1000, 2000))
    assert caught.value.not_stored_positions == tuple(range(2000, 2500))
    assert client.llen("jobs") == 2000


@pytest.mark.parametrize(("kind", "arrives"), [("lose_reply", True), ("lose_request", False)])
def test_a_push_over_shards_says_of_each_message_whether_it_is_stored(
    proxy: Proxy, client: redis.Redis, flavoured: Callable[..., Any], kind: Kind, arrives: bool
) -> None:
    url = proxy.url + "?socket_timeout=1"
    queue = flavoured(ShardedQueue.from_url, AsyncShardedQueue.from_url, url, "jobs", 3)
    proxy.fail(b"LPUSH", kind, skip=1)
    with contextlib.closing(queue), pytest.raises(ackq.UnknownOutcome) as caught:
        queue.push_many([b"%d" % number for number in range(7)], key=lambda body: str(int(body)))
    error = caught.value
    lists = [client.lrange(name, 0, -1) for name in shard_names("jobs", 3)]
    there = {int(each) for found in lists for each in found}
    sure, unknown = set(error.stored_positions), set(error.unknown_positions)
    assert there == (sure | unknown if arrives else sure)
    assert sorted([*sure, *unknown, *error.not_stored_positions]) == list(range(7))
    assert error.stored == len(sure) >= 2
    assert len(unknown) >= 2
    assert "Of 7 messages" in str(error)


@pytest.mark.parametrize("kind", ["lose_reply", "cut_reply"])
def test_requests_that_were_sent_together_are_sent_again_after_a_lost_reply(
    proxy: Proxy, client: redis.Redis, flavoured: Callable[..., Any], kind: Kind
) -> None:
    url = proxy.url + "?socket_timeout=1"
    queue = flavoured(ShardedQueue.from_url, AsyncShardedQueue.from_url, url, "jobs", 4)
    with contextlib.closing(queue):
        for number in range(8):
            queue.push({"id": f"m{number}"})
        taken = [queue.pop() for _ in range(7)]
        queue.stats()
        proxy.fail(b"EVALSHA", kind, skip=2)
        assert queue.stats().in_flight == 7
        proxy.fail(b"EVALSHA", kind, skip=1)
        with contextlib.suppress(ackq.UnknownOutcome):  # if the lost reply is the pop's
            queue.pop(ack=taken)
        assert queue.stats().in_flight == 1
        assert not any(message.lease_lost for message in taken)


@pytest.mark.parametrize("kind", ["lose_reply", "cut_reply"])
def test_a_pop_is_not_sent_again_and_what_it_leased_comes_back(
    proxy: Proxy, client: redis.Redis, direct: ackq.Queue, queue: Any, kind: Kind
) -> None:
    queue.ack(*filled(direct, queue, 1))
    direct.push_many([{"id": "a"}, {"id": "b"}])
    before = proxy.count(*SCRIPT)
    proxy.fail(b"EVALSHA", kind)
    with pytest.raises(ackq.UnknownOutcome):
        queue.pop()
    assert proxy.count(*SCRIPT) - before == 1
    assert direct.stats().in_flight == 1
    other = queue.pop()
    assert (other.id, other.receive_count) == ("b", 1)
    end_lease(client, "a")
    again = queue.pop()
    assert (again.id, again.receive_count) == ("a", 2)
    assert queue.ack(again, other) == 2


@pytest.mark.parametrize(
    ("verb", "kind"),
    [("ack", "cut_reply"), ("ack", "swallow_reply")]
    + [(verb, "lose_reply") for verb in ("ack", "nack", "release", "reject", "extend")],
)
def test_a_settle_is_sent_again_and_applied_once(
    proxy: Proxy, direct: ackq.Queue, queue: Queue, kind: Kind, verb: str
) -> None:
    first, second = filled(direct, queue, 2)
    settle = getattr(queue, verb)
    settle(first, **({"delay": 100} if verb == "nack" else {}))  # the script is loaded now
    before = proxy.count(*SCRIPT)
    proxy.fail(b"EVALSHA", kind)
    settle(second, **({"delay": 100} if verb == "nack" else {}))
    assert proxy.count(*SCRIPT) - before == 2
    assert not second.lease_lost
    stats = direct.stats()
    expected = {
        "ack": (0, 0, 0, 0),
        "nack": (0, 0, 2, 0),
        "release": (2, 0, 0, 0),
        "reject": (0, 0, 0, 2),
        "extend": (0, 2, 0, 0),
    }
    assert (stats.ready, stats.in_flight, stats.delayed, stats.dead) == expected[verb]
    if verb == "extend":
        assert queue.ack(first, second) == 2
    assert direct.audit().sound


@pytest.mark.parametrize("known", [False, True])
def test_a_refusal_says_whether_an_earlier_ack_may_have_been_applied(
    proxy: Proxy, direct: ackq.Queue, queue: Any, client: redis.Redis, known: bool
) -> None:
    """Its id is in use again: by the next message, or because the lease ended."""
    (mine,) = filled(direct, queue, 1)
    if known:
        end_lease(client, "0")
    else:
        proxy.fail(b"EVALSHA", "lose_reply", times=99)
        with pytest.raises(redis.ConnectionError):
            queue.ack(mine)
        proxy.faults.clear()
        assert not mine.maybe_settled
        direct.push({"id": "0"})
    theirs = direct.pop()
    assert theirs is not None
    with pytest.raises(ackq.LeaseLost) as caught:
        queue.ack(mine)
    assert ("earlier request for '0' was lost" in str(caught.value)) is not known
    assert mine.maybe_settled is not known
    assert direct.ack(theirs) == 1


@pytest.mark.parametrize("kind", LOST)
def test_a_lost_reply_to_pop_does_not_lose_the_acks_that_went_along(
    proxy: Proxy, client: redis.Redis, direct: ackq.Queue, queue: Any, kind: Kind
) -> None:
    done = filled(direct, queue, 2)
    direct.push({"id": "next"})
    proxy.fail(b"EVALSHA", kind)
    with pytest.raises(ackq.UnknownOutcome):
        queue.pop(ack=done)
    assert not any(message.lease_lost for message in done)
    assert direct.stats().in_flight == 1  # the one that the lost pop took
    end_lease(client, "next")
    again = queue.pop()
    assert (again.id, again.receive_count) == ("next", 2)


def test_acks_that_went_along_with_a_request_that_never_arrived_are_applied(
    proxy: Proxy, direct: ackq.Queue, queue: Queue
) -> None:
    done = filled(direct, queue, 2)
    proxy.fail(b"EVALSHA", "lose_request")
    with pytest.raises(ackq.UnknownOutcome):
        queue.pop(ack=done)
    assert direct.stats().in_flight == 0


@pytest.mark.parametrize("kind", LOST)
def test_a_wait_whose_reply_is_lost_goes_on(
    proxy: Proxy, direct: ackq.Queue, client: redis.Redis, queue: Any, kind: Kind
) -> None:
    queue.ack(*filled(direct, queue, 1))
    fault = proxy.fail(b"BLMOVE", kind)
    assert queue.pop(timeout=0.3) is None
    assert fault.hit == 1
    direct.push({"id": "a"})
    assert queue.pop(timeout=5).id == "a"


def test_reads_are_sent_again(proxy: Proxy, direct: ackq.Queue, queue: Queue) -> None:
    direct.push({"id": "a"})
    for look in (queue.stats, queue.peek, queue.audit, queue.dead_letters):
        look()
        proxy.fail(b"EVALSHA", "lose_reply")
        proxy.fail(b"XRANGE", "lose_reply")
        assert look() is not None


@pytest.mark.parametrize("verb", ["purge", "drain", "redrive"])
def test_what_could_act_on_more_the_second_time_is_not_sent_again(
    proxy: Proxy, direct: ackq.Queue, queue: Queue, verb: str
) -> None:
    done = filled(direct, queue, 2)
    queue.reject(done[0])
    sha = scripts.load(verb).sha
    fault = proxy.fail(b"EVALSHA", "lose_reply", containing=sha, times=100)
    with pytest.raises(ackq.UnknownOutcome):
        getattr(queue, verb)()
    assert fault.hit == 1


def test_a_script_that_was_flushed_between_two_calls_is_sent_again_as_text(
    proxy: Proxy, client: redis.Redis, direct: ackq.Queue, queue: Queue
) -> None:
    [message] = filled(direct, queue, 1)
    queue.extend(message)
    for settle in (queue.extend, queue.ack):
        client.script_flush()
        assert settle(message) == 1
    client.script_flush()
    assert queue.pop() is None


def test_a_flush_that_meets_a_lost_reply_does_no_harm(
    proxy: Proxy, client: redis.Redis, direct: ackq.Queue, queue: Queue
) -> None:
    [message] = filled(direct, queue, 1)
    client.script_flush()
    proxy.fail(b"EVAL", "lose_reply")
    queue.ack(message)
    assert direct.stats().in_flight == 0
    direct.push({"id": "a"})
    client.script_flush()
    proxy.fail(b"EVAL", "lose_reply")
    with pytest.raises(ackq.UnknownOutcome):
        queue.pop()
    assert direct.stats().in_flight == 1


def test_replies_stay_paired_when_the_script_of_a_confirmed_ack_was_flushed(
    client: redis.Redis, direct: ackq.Queue, queue: Queue
) -> None:
    messages = filled(direct, queue, 2)
    for message in messages:
        client.script_flush()
        with pytest.raises(ackq.NotConfirmed) as caught:
            queue.ack(message, confirm=ackq.Confirm(replicas=1, timeout=0.01))
        assert (caught.value.confirmed, caught.value.required) == (0, 1)
    assert queue.stats().in_flight == 0  # not a reply to WAIT
    assert queue.pop() is None


def test_a_push_of_many_that_is_not_confirmed_says_what_is_stored(
    client: redis.Redis, queue: Queue
) -> None:
    with pytest.raises(ackq.NotConfirmed) as caught:
        queue.push_many([b"x"] * 1500, confirm=ackq.Confirm(replicas=1, timeout=0.01))
    assert caught.value.stored_positions == tuple(range(1000))
    assert caught.value.not_stored_positions == tuple(range(1000, 1500))
    assert client.llen("jobs") == 1000
    once: list[dict[str, Any]] = [{"unique": "done"}, {"dedup": lambda message: message["id"]}]
    for options in once:
        messages = [{"id": f"{next(iter(options))}-{number}"} for number in range(600)]
        queue.push_many(messages[7:8], **options)
        with pytest.raises(ackq.NotConfirmed) as caught:
            queue.push_many(messages, confirm=ackq.Confirm(replicas=1, timeout=0.01), **options)
        sent = len(caught.value.stored_positions) + 1
        assert sent == {"unique": 100, "dedup": 500}[next(iter(options))]
        assert caught.value.stored_positions == (*range(7), *range(8, sent))
        assert caught.value.not_stored_positions == (7, *range(sent, 600))


def test_an_ack_whose_replies_are_all_lost_says_so(
    proxy: Proxy, direct: ackq.Queue, queue: Queue
) -> None:
    done = filled(direct, queue, 1)
    proxy.fail(b"EVALSHA", "lose_reply", times=100)
    with pytest.raises(redis.ConnectionError):
        queue.ack(*done)
    proxy.faults.clear()
    assert direct.stats().in_flight == 0
    assert queue.ack(*done) == 0  # it may have been applied, so it may be repeated
    assert queue.extend(*done) == 0
    assert not done[0].lease_lost


def test_a_fused_ack_whose_replies_are_all_lost_may_be_repeated(
    proxy: Proxy, direct: ackq.Queue, queue: Queue
) -> None:
    done = filled(direct, queue, 2)
    proxy.fail(b"EVALSHA", "lose_reply", times=100)
    with pytest.raises(ackq.UnknownOutcome):
        queue.pop(ack=done)
    proxy.faults.clear()
    assert queue.ack(done[0]) == 0
    assert queue.pop(ack=done) is None
    assert not any(message.lease_lost for message in done)
