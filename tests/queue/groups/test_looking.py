"""Reads know messages that were moved aside."""

import hashlib
import time

import pytest
import redis

from ackq import ConfigurationError, Groups, Queue
from ackq.core.failure_notes import mark
from ackq.queue import unique


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
        assert {message.entry for message in queue.peek(9)} == {""}
        assert ids == ["c0", "a1", "a2", "b1", "b2"]
        assert [message.id for message in queue.peek(2, skip=2)] == ids[2:4]
        assert [message.id for message in queue.peek(2, skip=4)] == ids[4:]
        assert queue.peek(2, skip=5) == []
        assert [message.id for message in queue.peek(9, group="b")] == ids[3:]
        assert [message.id for message in queue.peek(1, group="b", skip=1)] == ids[4:]
        for wrong in ({"state": "delayed", "group": "b"}, {"n": -1, "group": "b"}):
            with pytest.raises(ConfigurationError):
                queue.peek(**wrong)
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


def test_a_message_that_was_moved_back_to_wake_a_consumer_counts_as_listed(
    plain_client: redis.Redis, name: str
) -> None:
    """A search may pass its place while it is on the list, and the list while it is not."""
    with Queue(plain_client, name, groups=Groups("of")) as queue:
        of = mark(b'{"id":"u"}')
        notes = b"0:%b:99|" % of

        def look() -> bytes:
            return queue.execute(lambda spec: unique.search(spec, "u", notes))

        assert look() == b"-" + notes
        plain_client.set(f"{name}GROUPS:WOKEN", b"%b 5 001a%016d" % (of, 1))
        assert look() == b"+" + notes
        queue.purge()


def test_groups_are_chosen_by_their_backlog_their_age_and_their_name(
    plain_client: redis.Redis, name: str
) -> None:
    long = "x" * 513
    with Queue(plain_client, name, groups=Groups("of")) as queue:
        queue.push_many({"id": f"{of[:2]}{n}", "of": of} for of in ("ab", "b", long) for n in "01")
        assert [len(queue.pop_many(1)) for _ in range(4)] == [1, 1, 1, 0]
        queue.push({"id": "b2", "of": "b"})
        assert queue.pop() is None
        named = [group.name for group in queue.groups()]
        assert named[:2] == ["b", "ab"]
        assert named[2].startswith("sha1:")
        by_age = queue.groups(by="oldest")
        assert [group.name for group in by_age] == ["ab", "b", named[2]]
        ages = [group.oldest for group in by_age]
        assert None not in ages
        assert ages == sorted(ages, reverse=True)  # type: ignore[type-var]
        assert [group.name for group in queue.groups(1, containing="a")] == ["ab"]
        for of in (long, named[2]):
            assert [message.id for message in queue.peek(9, group=of)] == ["xx1"]
        with pytest.raises(ConfigurationError, match="by is one of"):
            queue.groups(by="size")  # type: ignore[arg-type]
        queue.purge()


def test_a_group_may_have_the_name_as_which_a_long_one_is_shown(
    plain_client: redis.Redis, name: str
) -> None:
    long = "x" * 513
    short = f"sha1:{hashlib.sha1(b'y').hexdigest()}"
    shown = f"sha1:{hashlib.sha1(long.encode()).hexdigest()}"
    with Queue(plain_client, name, groups=Groups("of", on_dead="stop")) as queue:
        for group in (long, short):
            queue.push_many([{"id": group[:2]}, {"id": f"{group[:2]}1"}], group=group)
        queue.reject(*queue.pop_many(4))
        queue.push_many([{"id": f"{group[:2]}2", "of": group} for group in (long, short)])
        assert queue.pop() is None
        for group, first in ((short, "sh"), (shown, "xx")):
            assert [message.id for message in queue.peek(9, group=group)] == [f"{first}2"]
            assert queue.resume_group(group) == 2
            assert queue.resume_group(group) == 0
            taken = queue.pop()
            assert taken is not None
            assert taken.id == f"{first}2"
        queue.purge(dead=True)


def test_a_path_names_no_group() -> None:
    with pytest.raises(ConfigurationError, match=r"not a path: 'customer\.id'"):
        Groups("customer.id")


def test_a_peek_skips_more_moved_messages_than_one_call_reads(
    plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name, groups=Groups("of")) as queue:
        queue.push_many([{"id": f"a{n}", "text": 600_000 * "x"} for n in range(5)], group="a")
        assert queue.pop() is not None
        assert queue.pop() is None
        assert [message.id for message in queue.peek(1, skip=3)] == ["a4"]
        queue.purge()
