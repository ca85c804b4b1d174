"""Reads know messages that were moved aside."""

import time

import redis

from ackq import Groups, Queue


def test_messages_that_were_moved_aside_are_peeked_found_and_searched(
    plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name, groups=Groups("of")) as queue:
        queue.push_many({"id": f"{of}{n}", "of": of, "n": n} for n in range(3) for of in "ab")
        assert [message.id for message in queue.pop_many(1) + queue.pop_many(1)] == ["a0", "b0"]
        assert queue.pop() is None
        queue.push({"id": "c0", "of": "c"})
        assert queue.stats().ready == 5
        ids = [message.id for message in queue.peek(9)]
        assert ids == ["c0", "a1", "a2", "b1", "b2"]
        assert [message.id for message in queue.peek(2, skip=2)] == ids[2:4]
        assert [message.id for message in queue.peek(2, skip=4)] == ids[4:]
        assert queue.peek(2, skip=5) == []
        found = queue.find("b2")
        assert found is not None
        assert (found.state, found.position) == ("ready", None)
        assert [match.id for match in queue.search({"n": 2})] == ["a2", "b2"]
        assert [match.id for match in queue.search({"n": 2}, limit=1)] == ["a2"]
        assert queue.find("a9") is None
        queue.purge()


def test_a_turn_is_as_old_as_the_ack_that_began_it(plain_client: redis.Redis, name: str) -> None:
    with Queue(plain_client, name, groups=Groups("of")) as queue:
        queue.push_many([{"id": "a0"}, {"id": "a1"}], group="a")
        first = queue.pop()
        assert first is not None
        assert queue.pop() is None
        started = time.monotonic()
        queue.ack(first)
        [group] = queue.groups()
        assert group.turn_for is not None
        assert 0 < group.turn_for < time.monotonic() - started
        queue.purge()


def test_a_peek_skips_more_moved_messages_than_one_call_reads(
    plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name, groups=Groups("of")) as queue:
        queue.push_many([{"id": f"a{n}", "text": 600_000 * "x"} for n in range(5)], group="a")
        assert queue.pop() is not None
        assert queue.pop() is None
        assert [message.id for message in queue.peek(1, skip=3)] == ["a4"]
        queue.purge()
