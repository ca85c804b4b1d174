"""What a sharded queue decides between two replies, with no server."""

import itertools
from typing import Any

import pytest
from redis.exceptions import ResponseError

from ackq.config import QueueConfig
from ackq.core.effects import Sleep
from ackq.errors import (
    ConfigurationError,
    LeaseLost,
    PartlyStored,
    UnknownOutcome,
)
from ackq.membership.shards import Shards
from ackq.queue import inspection
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message, QueueCounters, QueueStats
from ackq.queue.spec import QueueSpec
from ackq.sharded import operations, resize
from ackq.sharded.choice import MAX_OTHERS, Choice
from ackq.sharded.operations import Part, ShardCounts
from tests.outside import FIXED
from tests.steps import play

SHARD = "{jobs:0.1}"
SPEC = QueueSpec(SHARD, QueueKeys.of(SHARD), QueueConfig(), outside=FIXED)


def _message(id: str, queue: str = SHARD) -> Message:
    return Message(queue, id.encode(), b"{}", 1, 1)


def test_the_shard_of_a_key_is_the_same_in_every_language_and_release() -> None:
    keys = ("a", "b", "ü", "\ud800", "")
    assert [operations.shard_of(key, 16) for key in keys] == [2, 3, 10, 14, 0]
    assert operations.shard_of("a", 1) == 0
    assert operations.shard_of("b", 2**32) == 0x95DE7E03  # murmur3, unsigned
    with pytest.raises(ConfigurationError, match="text, not 5"):
        operations.shard_of(5, 16)  # type: ignore[arg-type]


def test_messages_are_divided_by_key_and_the_others_in_turn() -> None:
    config = QueueConfig()
    messages = [{"id": str(number), "key": key} for number, key in enumerate("ab-ba-")]
    turns = itertools.count(5)

    def key_of(message: Any) -> str | None:
        return None if message["key"] == "-" else message["key"]

    parts, ids = operations.divide(messages, key_of, 4, turns, config, FIXED)
    assert ids == list("012345")
    a, b = operations.shard_of("a", 4), operations.shard_of("b", 4)
    assert a != b
    assert [(part.shard, part.positions) for part in parts] == [
        (a, [0, 4]),
        (b, [1, 3]),
        (1, [2, 5]),
    ]
    assert all(
        b'"id":"%d"' % at in body
        for part in parts
        for at, body in zip(part.positions, part.bodies, strict=True)
    )
    (part,), _ = operations.divide(messages, "a", 4, turns, config, FIXED)
    assert (part.shard, part.positions) == (a, list(range(6)))
    # One call stores a thousand.
    parts, _ = operations.divide([b"{}"] * 2001, None, 4, turns, config, FIXED)
    assert [(part.shard, len(part.bodies)) for part in parts] == [(2, 1000), (3, 1000), (0, 1)]
    assert [at for part in parts for at in part.positions] == list(range(2001))


def test_an_error_of_one_shard_accounts_for_all_messages_of_the_call() -> None:
    parts = [Part(0, [0, 3], [b"", b""]), Part(1, [1, 4], [b"", b""]), Part(2, [2], [b""])]
    error = operations.account(ResponseError("no"), parts, 1)
    assert isinstance(error, PartlyStored)
    assert (error.stored_positions, error.unknown_positions, error.not_stored_positions) == (
        (0, 3),
        (),
        (1, 2, 4),
    )
    lost = UnknownOutcome("lost")
    lost.account([0], [1], [])
    found = operations.account(lost, parts, 1)
    assert found is lost
    assert (lost.stored_positions, lost.unknown_positions, lost.not_stored_positions) == (
        (0, 1, 3),
        (4,),
        (2,),
    )
    assert lost.stored == 3


def test_messages_are_settled_by_shard_and_the_lost_ones_are_one_error() -> None:
    a, b, c = _message("a"), _message("b", "{jobs:1.0}"), _message("c")
    assert operations.by_queue([a, b, c], "ack") == {SHARD: [a, c], "{jobs:1.0}": [b]}
    assert operations.by_queue(a, "ack") == {SHARD: [a]}
    assert operations.by_queue([[a], c], "ack") == {SHARD: [a, c]}
    with pytest.raises(ConfigurationError):
        operations.by_queue(["a"], "ack")
    operations.raise_lost([], 3)
    errors = [LeaseLost("one", messages=(a, c)), LeaseLost("two", messages=(b,))]
    with pytest.raises(LeaseLost, match="one; two") as raised:
        operations.raise_lost(errors, 3)
    assert (raised.value.messages, raised.value.settled) == ((a, c, b), 3)


def test_the_counts_of_shards_are_added() -> None:
    one = QueueStats(1, 2, 4, 8, 16, 32, False, 5.0, claimed=64)
    two = QueueStats(100, 200, 400, 800, 1600, 3200, True, None, claimed=6400)
    both = QueueStats(101, 202, 404, 808, 1616, 3232, True, 5.0, claimed=6464)
    assert inspection.total([one, two]) == both
    assert inspection.total([one, one]).paused is False
    assert inspection.total([two]).next_event_in is None
    assert inspection.oldest([1.0, 3.0, 2.0]) == 3.0
    assert inspection.oldest([1.0, None]) is None


def test_the_counters_of_shards_are_added_with_their_timeouts() -> None:
    one = QueueCounters(
        9.0, 5.0, 1, 2, 3, 4, dead={"rejected": 1}, timeouts={30: 2, 60: 1}, dead_rows=3
    )
    two = QueueCounters(
        8.0, 6.0, 10, 20, 30, 40, dead={"rejected": 2}, timeouts={30: 5}, dead_rows=4
    )
    found = inspection.counted([one, two])
    assert (found.pushed, found.taken, found.acked, found.returned) == (11, 22, 33, 44)
    assert (found.dead, found.timeouts, found.dead_rows) == ({"rejected": 3}, {30: 7, 60: 1}, 7)


def test_a_number_of_shards_that_differs_from_the_record_is_refused() -> None:
    recorded = Shards(2, 4, 7)
    assert operations.agreed("jobs", recorded, None) is recorded
    assert operations.agreed("jobs", recorded, 4) is recorded
    assert operations.agreed("jobs", Shards(1, 4), 5) == Shards(1, 5)
    with pytest.raises(ConfigurationError, match="has 4 shards, not 5"):
        operations.agreed("jobs", recorded, 5)
    with pytest.raises(ConfigurationError, match="does not exist"):
        operations.agreed("jobs", None, 4)
    operations.check_resizable("jobs", recorded)
    with pytest.raises(ConfigurationError, match="has format 1"):
        operations.check_resizable("jobs", Shards(1, 4))
    assert operations.group_of("jobs", Shards(1, 4)) == "{jobs}"
    assert operations.group_of("jobs", recorded) == "{jobs}:4"


def test_a_look_at_a_shard_says_what_is_ready_and_what_will_be() -> None:
    (asked,), found = play(operations.shard_counts(SPEC), [3, 0, 1_500_000])
    assert found == ShardCounts(3, False, 1.5)
    assert asked.resend
    assert play(operations.shard_counts(SPEC), [0, 1, -1])[1] == ShardCounts(0, True, None)
    assert play(operations.shard_counts(SPEC), [0, 0, 0])[1] == ShardCounts(0, False, 0.0)


def test_a_wait_on_a_shard_begins_only_where_nothing_is_ready() -> None:
    def waited(counts: ShardCounts | None, *answers: Any) -> tuple[list[Any], bool]:
        return play(operations.wait(SPEC, 0.4, counts), *answers)

    (slept,), woken = waited(ShardCounts(5, True, None), None)
    assert isinstance(slept, Sleep)
    assert (woken, slept.seconds <= 0.4) == (False, True)
    (looked, blocked), woken = waited(None, [0, 0, -1], b"body")
    assert looked.script.name == "sharded/look"
    assert blocked.args == SPEC.keys.wait(0.4)
    assert woken is True
    (blocked,), woken = waited(ShardCounts(0, False, 0.1), None)
    assert (blocked.args, woken) == (SPEC.keys.wait(0.1), False)
    assert waited(ShardCounts(0, False, 0.7), None)[0][0].args == SPEC.keys.wait(0.4)
    with pytest.raises(StopIteration) as ended:
        next(operations.wait(SPEC, 0.4, ShardCounts(1, False, None)))
    assert ended.value.value is True
    (slept,), _ = play(operations.wait(SPEC, 60.0, ShardCounts(0, True, None)), None)
    assert 0 < slept.seconds < 1


def test_the_record_changes_by_version_and_shards_close_only_when_empty() -> None:
    (asked,), version = play(resize.change(SPEC, "jobs", 3, 4, {8, 2}), 4)
    assert (asked.args, version) == ((1, b"{jobs}:shards", 3, 4, "2 8"), 4)
    for operation in (resize.retire, resize.revive):
        (asked,), done = play(operation(SPEC, 3), 1)
        assert (asked.args[0], asked.args[-1], done) == (len(asked.args) - 2, 3, True)
        assert asked.args[1] == SPEC.keys.ready
        assert asked.resend
        assert play(operation(SPEC, 3), 0)[1] is False
    retired = next(resize.retire(SPEC, 3))
    assert {SPEC.keys.record, SPEC.keys.dead} < set(retired.args)  # type: ignore[union-attr]
    for reply, closed in ((b"string", True), (b"list", False), (ResponseError("x"), False)):
        (asked,), found = play(resize.is_retired(SPEC), reply)
        assert (asked.args, asked.resend, found) == ((b"TYPE", SPEC.keys.ready), True, closed)
    recorded = Shards(2, 4, 7, (2,))
    assert resize.announced(recorded, 8) == {2, 8}
    assert resize.switched(recorded, 8) == {2, 4}
    assert resize.switched(Shards(2, 4, 7, (8,)), 8) == {4}


def test_a_shard_that_has_just_got_a_message_is_next() -> None:
    choice = Choice(0)
    choice.counted({0: ShardCounts(5, False, None), 1: ShardCounts(0, False, None)}, 0)
    choice.woken(1)
    assert choice.shard(0) == 1
    choice.took(1, 1, 1)
    assert choice.shard(0) == 0
    assert choice.counted({}, 0) is None


def test_draining_shards_are_looked_at_too_some_at_a_time() -> None:
    choice = Choice(0)
    assert choice.drained(4, 4) == []
    assert choice.drained(4, 4 + MAX_OTHERS) == list(range(4, 4 + MAX_OTHERS))
    looks = [choice.drained(4, 64) for _ in range(4)]
    assert {len(look) for look in looks} == {MAX_OTHERS}
    assert set(itertools.chain(*looks)) == set(range(4, 64))
