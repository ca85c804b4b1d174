"""The command line finds the end that is popped by the record; --pop-from sets it at first use."""

import redis

from ackq import Queue
from ackq.sharded.client import ShardedQueue
from tests.cli.conftest import Run


def test_the_recorded_end_needs_no_option(ackq: Run, plain_client: redis.Redis, name: str) -> None:
    plain_client.rpush(name, '{"id":"a"}', '{"id":"b"}')
    assert ackq("pop", name, "--pop-from", "left", "--ack").stdout == '{"id":"a"}\n'
    ackq("push", name, '{"id":"c"}')
    assert plain_client.lrange(name, 0, -1) == [b'{"id":"b"}', b'{"id":"c"}']
    assert ackq("stats", name).stdout.startswith("ready\t2")
    assert "b" in ackq("peek", name).stdout
    assert ackq("pop", name, "--ack").stdout == '{"id":"b"}\n'
    ackq("audit", name)
    ackq("claims", "list", name)
    ackq("drain", name, "--yes")
    assert plain_client.keys(f"{name}*") == [name.encode()]


def test_another_end_than_the_recorded_one_is_refused(ackq: Run, url: str, name: str) -> None:
    with Queue.from_url(url, name, pop_from="left") as queue:
        queue.push({"id": "a"})
    result = ackq("pop", name, "--pop-from", "right", code=3)
    assert "is popped from the left" in result.stderr


def test_messages_move_between_queues_of_different_ends(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    plain_client.rpush(name, '{"id":"a"}', '{"id":"b"}')
    ackq("move", name, f"{name}-to", "--pop-from", "left")
    assert plain_client.lrange(f"{name}-to", 0, -1) == [b'{"id":"b"}', b'{"id":"a"}']
    ackq("move", f"{name}-to", name, "--to-pop-from", "left")
    assert plain_client.lrange(name, 0, -1) == [b'{"id":"a"}', b'{"id":"b"}']


def test_a_sharded_queue_has_one_end(ackq: Run, url: str, name: str) -> None:
    with ShardedQueue.from_url(url, name, 2, pop_from="left") as queue:
        queue.push_many([{"id": "a"}, {"id": "b"}], key="one shard")
        assert [message.id for message in queue.pop_many(1)] == ["a"]
    right = ackq("acl", f"{{{name}:0}}", "consumer").stdout
    assert ackq("acl", f"{{{name}:0}}", "consumer", "--pop-from", "left").stdout != right
