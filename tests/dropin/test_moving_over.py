"""Taking over from the article's scripts, and going back."""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import redis

import ackq
from ackq import dropin
from ackq.core.claim_groups import Claim
from ackq.queue.claims_client import Claims
from benchmarks.contestants.article import ACK, POP
from tests.dropin.seen import settled

MESSAGES, IN_DEAD_HANDS = 200, 50
#: Units of time that a client of the article may pass, in a second.
UNITS = {"s": 1, "ms": 10**3, "µs": 10**6, "ns": 10**9}


class Article:
    """A consumer that runs the article's scripts."""

    def __init__(self, client: redis.Redis, name: str, unit: int, age: float = 0) -> None:
        self._client, self._name, self._unit, self._age = client, name, unit, age

    def pop(self, considered_failed: float = math.inf) -> bytes | None:
        now = int((time.time() - self._age) * self._unit)
        span = min(considered_failed, 1e6) * self._unit
        return self._client.eval(POP, 0, self._name, now, span)  # type: ignore[no-any-return]

    def ack(self, body: bytes) -> None:
        self._client.eval(ACK, 0, json.loads(body)["id"], self._name)


def drained(pop: Callable[[], bytes | None]) -> Iterator[bytes]:
    while (body := pop()) is not None:
        yield body


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("batch", [1, 10])
def test_everything_is_taken_over_once(
    plain_client: redis.Redis, name: str, queue: ackq.Queue, unit: str, batch: int
) -> None:
    bodies = [b'{"id": "m%d"}' % number for number in range(MESSAGES)]
    plain_client.lpush(name, *bodies)
    dead = Article(plain_client, name, UNITS[unit], age=100)
    held = [dead.pop() for _ in range(IN_DEAD_HANDS)]
    # 30 of them are put back on the list by a consumer that finishes others.
    alive = Article(plain_client, name, UNITS[unit])
    finished = []
    for _ in range(30):
        body = alive.pop(considered_failed=50)
        assert body is not None
        alive.ack(body)
        finished.append(body)
    taken = Counter[bytes]()
    while messages := queue.pop_many(batch):
        taken.update(message.body for message in messages)
        assert queue.ack(messages) == len(messages)
    assert len(held) == IN_DEAD_HANDS
    assert taken == Counter(set(bodies) - set(finished))
    assert settled(queue)
    assert queue.audit(repair=True).findings == ()
    assert not plain_client.exists(f"{name}CONTEXT")


@pytest.fixture(params=[None, ackq.Groups("customer")], ids=["plain", "grouped"])
def taker(
    plain_client: redis.Redis, name: str, request: pytest.FixtureRequest
) -> Iterator[ackq.Queue]:
    """A queue that takes over; with groups, it has another pop."""
    with ackq.Queue(plain_client, name, groups=request.param) as queue:
        yield queue


def test_equal_messages_are_taken_over_one_by_one(
    plain_client: redis.Redis, name: str, taker: ackq.Queue
) -> None:
    """The body that was left is that of one of them, whatever else is leased or waits."""
    body = b'{"id": "a"}'
    plain_client.lpush(name, *[body] * 4)
    plain_client.hset(f"{name}CONTEXT", "a", body)
    messages = taker.pop_many(2)
    assert [message.key for message in messages].count(b"a") == 1
    (first,) = (message for message in messages if message.key == b"a")
    taker.nack(first, delay=0.05)
    while taker.stats().delayed:
        pass
    again = taker.pop_many(10)
    assert [message.body for message in again] == [body] * 3
    assert len({message.key for message in [*messages, *again]}) == 4
    assert taker.ack(again, messages[1 - messages.index(first)]) == 4
    assert settled(taker)
    assert taker.audit().findings == ()


@pytest.mark.parametrize("is_leased", [False, True])
def test_a_claim_removes_what_was_left_of_its_messages_alone(
    plain_client: redis.Redis, name: str, queue: ackq.Queue, is_leased: bool
) -> None:
    """The same body may be leased under this id: it stays. So does what was left of others."""
    leased = []
    if is_leased:
        plain_client.lpush(name, b'{"id": "a"}')
        leased = queue.pop_many(1)
    plain_client.lpush(name, b'{"id": "a"}', b'{"id": "b"}', b'{"id": "c", "n": 1}')
    left = {"a": b'{"id": "a"}', "b": b'{"id": "b"}', "c": b'{"id": "c"}'}
    plain_client.hset(f"{name}CONTEXT", mapping=left)  # type: ignore[arg-type]
    with Claims(plain_client, name, "g") as claims:
        claims.begin()
        assert claims.claim(0, messages=10) == Claim(1, 3)
        claims.ack(1)
    assert sorted(plain_client.hkeys(f"{name}CONTEXT")) == [b"a", b"c"][not is_leased :]
    assert queue.ack(*leased) == is_leased
    plain_client.delete(f"{name}CONTEXT")


def test_another_message_under_the_id_is_not_taken_over(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    plain_client.hset(f"{name}CONTEXT", "a", b'{"id": "a", "n": 1}')
    plain_client.lpush(name, b'{"id": "a", "n": 2}')
    message = queue.pop()
    assert message is not None
    assert message.key != b"a"
    queue.ack(message)
    assert [each.repaired for each in queue.audit(repair=True).findings] == [True]
    again = queue.pop()
    assert again is not None
    assert again.body == b'{"id": "a", "n": 1}'
    queue.ack(again)


def test_going_back_gives_the_article_everything_once(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    bodies = [b'{"id": "m%d"}' % number for number in range(MESSAGES)]
    plain_client.lpush(name, *bodies)
    held = queue.pop_many(IN_DEAD_HANDS)
    queue.nack(*held[:10], delay=100)
    assert queue.drain() == IN_DEAD_HANDS
    article = Article(plain_client, name, 1)
    taken = []
    for body in drained(article.pop):
        article.ack(body)
        taken.append(body)
    assert sorted(taken) == sorted(bodies)
    assert not plain_client.keys(f"{name}*")


def test_going_back_puts_everything_onto_the_list(
    r: dropin.Redis, name: str, queue: ackq.Queue, plain_client: redis.Redis
) -> None:
    r.lpush(name, "a", "b", "c")
    r.rpop(name, 2)
    assert queue.drain() == 2
    assert [plain_client.rpop(name) for _ in range(4)] == [b"a", b"b", b"c", None]
