"""What consumers left in processing lists goes back to the front of the queue."""

import pytest
import redis

from ackq import Queue
from ackq.errors import ConfigurationError, KeyTypeError, QueueNameError
from ackq.ops.recover import STEP, Recovery

N = 2 * STEP + 7


def take_all(client: redis.Redis, name: str, into: str) -> None:
    """Take messages as a careful consumer does, which then dies."""
    while client.rpoplpush(name, into) is not None:
        pass


@pytest.fixture
def client(plain_client: redis.Redis) -> redis.Redis:
    """A client of one plain server."""
    return plain_client


def test_the_messages_of_dead_consumers_are_the_next_and_in_order(
    client: redis.Redis, name: str
) -> None:
    bodies = [b'{"id":%d}' % number for number in range(N)] + [b"\xff\0", b"", b""]
    client.lpush(name, *bodies)
    take_all(client, name, f"{name}:processing")
    client.lpush(name, "new")
    with Recovery(client, name) as recovery:
        counted = recovery.count([f"{name}:processing", f"{name}:none"])
        assert counted == {f"{name}:processing": len(bodies), f"{name}:none": 0}
        steps: list[int] = []
        assert recovery.put_back(counted, steps.append) == len(bodies)
    assert steps == [STEP, 2 * STEP, len(bodies)]
    # The right end is the front.
    assert client.lrange(name, 0, -1) == [b"new", *bodies[::-1]]


def test_a_queue_popped_from_the_left_gets_them_there(client: redis.Redis, name: str) -> None:
    with Queue(client, name, pop_from="left") as queue:
        queue.push(b"in flight")
        queue.pop()
        client.rpush(name, "new")
        client.rpush(f"{name}:working", *"abc")
        with Recovery(client, name) as recovery:
            assert recovery.put_back(recovery.count([f"{name}:working"])) == 3
        assert [each.body for each in queue.pop_many(9)] == [b"a", b"b", b"c", b"new"]


def test_no_more_is_moved_than_was_counted(client: redis.Redis, name: str) -> None:
    client.lpush(f"{name}:working", *"abc")
    with Recovery(client, name) as recovery:
        counted = recovery.count([f"{name}:working"])
        client.lpush(f"{name}:working", *"de")
        assert recovery.put_back(counted) == 3
    assert client.llen(f"{name}:working") == 2


def test_a_list_that_shrinks_meanwhile_is_no_error(client: redis.Redis, name: str) -> None:
    client.lpush(f"{name}:working", *"abc")
    with Recovery(client, name) as recovery:
        counted = recovery.count([f"{name}:working"])
        client.lrem(f"{name}:working", 1, "b")
        assert recovery.put_back(counted) == 2


def test_a_list_of_the_queue_itself_is_refused(client: redis.Redis, name: str) -> None:
    with Recovery(client, name) as recovery:
        for own in (name, f"{name}HANDOFF", f"{name}CLAIM:g:1", f"{name}STAGED:w:1:0"):
            with pytest.raises(ConfigurationError, match="not a processing list"):
                recovery.count([own])


def test_a_key_that_is_not_a_list_is_named(client: redis.Redis, name: str) -> None:
    client.set(f"{name}:lock", 1)
    with Recovery(client, name) as recovery, pytest.raises(KeyTypeError, match="is a string"):
        recovery.count([f"{name}:lock"])
    with pytest.raises(QueueNameError):
        Recovery(client, f"{name}BACKUP")


def test_a_processing_list_may_have_any_name(client: redis.Redis, name: str) -> None:
    key = name.encode() + b":\xff\n"
    client.lpush(key, "a")
    with Recovery(client, name) as recovery:
        counted = recovery.count([key.decode(errors="surrogateescape")])
        assert recovery.put_back(counted) == 1
    assert client.lrange(name, 0, -1) == [b"a"]


def test_a_queue_that_is_no_list_is_named_before_anything_moves(
    client: redis.Redis, name: str
) -> None:
    client.set(name, "x")
    client.lpush(f"{name}:working", "a")
    with Recovery(client, name) as recovery, pytest.raises(KeyTypeError, match=f"'{name}' is a"):
        recovery.count([f"{name}:working"])
