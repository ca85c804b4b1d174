"""Whatever bytes others store, and whatever a caller passes: nothing is lost or wedged."""

from collections.abc import Callable

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackq.delay import DelayedMessage, DelayQueue
from ackq.errors import KeyTypeError
from tests.delay.article import Article
from tests.queue.test_bad_bodies import CORPUS

Make = Callable[..., DelayQueue]


@pytest.fixture
def queue(plain_client: redis.Redis, name: str) -> DelayQueue:
    return DelayQueue(plain_client, name, max_receives=2, max_body_bytes=8 * 1024 * 1024)


def test_every_bad_body_lives_through_every_way_a_message_travels(
    queue: DelayQueue, plain_client: redis.Redis, name: str
) -> None:
    article = Article(plain_client, name)
    bodies = {f"{number}": body for number, body in enumerate(CORPUS)}
    for number, (key, body) in enumerate(bodies.items()):
        if number % 2:
            queue.push(key, body)
        else:
            article.push(key, body, 1)
    for verb in ("release", "nack", "reject", "delete"):
        taken: dict[str, DelayedMessage] = {}
        while batch := queue.take(50):
            taken |= {message.key: message for message in batch}
        assert {key: message.body for key, message in taken.items()} == bodies
        # Nacked at once they would be taken again by the loop that counts them.
        for message in taken.values():
            settle = getattr(queue, verb)
            assert (settle(message, delay=0) if verb == "nack" else settle(message)) == 1
        if verb == "reject":
            assert {letter.id: letter.body for letter in queue.dead_letters(1000)} == bodies
            assert queue.redrive() == len(bodies)
    assert queue.stats() == type(queue.stats())(0, 0, 0, 0, None)
    queue.close()


@settings(max_examples=25, suppress_health_check=list(HealthCheck), database=None)
@given(
    stored=st.dictionaries(st.binary(max_size=40), st.binary(max_size=60), min_size=1, max_size=8),
    score=st.floats(allow_nan=False, max_value=1.7e9),
)
def test_any_key_and_body_of_others_is_taken_settled_and_deleted(
    plain_client: redis.Redis, name: str, stored: dict[bytes, bytes], score: float
) -> None:
    queue = DelayQueue(plain_client, name)
    plain_client.hset(f"{name}:h", mapping=stored)  # type: ignore[arg-type]
    plain_client.zadd(f"{name}:z", dict.fromkeys(stored, score))
    taken = queue.take(9)
    found = {each.key.encode(errors="surrogateescape"): each.body for each in taken}
    assert found == stored
    assert queue.extend(*taken) == queue.nack(*taken, delay=0) == len(stored)
    assert queue.delete(*queue.take(9)) == len(stored)
    assert not plain_client.exists(f"{name}:z", f"{name}:h", f"{name}:leases")
    queue.close()


@pytest.mark.parametrize(
    "value", ["", "x", "1e30", "nan", "-1", "1.5", "9" * 400, "9" * 5000], ids=lambda each: each[:5]
)
def test_what_is_no_number_in_a_dead_letter_of_others_is_0(
    queue: DelayQueue, plain_client: redis.Redis, name: str, value: str
) -> None:
    plain_client.xadd(f"{name}:dead", {"key": "k", "body": "b", "count": value, "time": value})
    (letter,) = queue.dead_letters()
    assert (letter.id, letter.body, letter.receive_count, letter.died_at) == ("k", b"b", 0, 0)
    assert queue.redrive() == 1
    queue.close()


def test_dead_letters_of_another_type_are_named(
    queue: DelayQueue, plain_client: redis.Redis, name: str
) -> None:
    plain_client.set(f"{name}:dead", "a string")
    for look in (queue.dead_letters, queue.redrive):
        with pytest.raises(KeyTypeError, match=f"{name}:dead"):
            look()
    queue.close()
