"""Taking over from the article's scripts, and going back."""

import time

import redis

import ackq
from ackq import dropin
from tests.dropin.seen import settled


def leave_like_the_article(client: redis.Redis, name: str, id: str, age: float) -> bytes:
    """Leave what the article's pop script leaves: the time of the pop as the score."""
    body = b'{"id": "%s"}' % id.encode()
    client.zadd(f"{name}BACKUP", {id: int(time.time() - age)})
    client.hset(f"{name}CONTEXT", id, body)
    return body


def test_what_the_articles_consumers_left_is_taken_over(
    r: dropin.Redis, name: str, queue: ackq.Queue, plain_client: redis.Redis
) -> None:
    left = {leave_like_the_article(plain_client, name, f"old-{n}", n) for n in range(3)}
    r.lpush(name, '{"id": "new"}')
    assert r.llen(name) == 4
    assert {r.rpop(name) for _ in left} == left
    assert r.rpop(name) == b'{"id": "new"}'
    assert r.rpop(name) is None
    assert settled(queue)
    assert queue.audit().findings == ()


def test_going_back_puts_everything_onto_the_list(
    r: dropin.Redis, name: str, queue: ackq.Queue, plain_client: redis.Redis
) -> None:
    r.lpush(name, "a", "b", "c")
    r.rpop(name, 2)
    assert queue.drain() == 2
    assert [plain_client.rpop(name) for _ in range(4)] == [b"a", b"b", b"c", None]
