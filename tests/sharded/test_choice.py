"""Which shard a take tries, and what looks and acks cost."""

from __future__ import annotations

from typing import Any

from ackq.queue.messages import QueueStats
from ackq.sharded.choice import COUNTS_LAST, HELP_INTERVAL, TAKES_IN_A_ROW, Choice
from ackq.sharded.operations import shard_of
from tests.servers import Target
from tests.sharded.conftest import MakeSharded
from tests.sharded.test_sharded import deal


def having(ready: int, paused: bool = False) -> QueueStats:
    return QueueStats(
        ready=ready, in_flight=0, delayed=0, dead=0, expired=0, due=0, paused=paused,
        next_event_in=None, claimed=0,
    )  # fmt: skip


def test_takes_stay_on_a_shard_then_go_on_to_the_next_that_has_messages() -> None:
    choice = Choice()
    assert choice.shard(0) is None
    assert choice.counted({0: having(1), 1: having(0), 2: having(500), 3: having(9, True)}, 0) == 2
    seen = []
    for _ in range(2 * TAKES_IN_A_ROW):
        seen.append(shard := choice.shard(0))
        assert shard is not None
        choice.took(shard, 1, 1)
    assert seen == [2] * TAKES_IN_A_ROW + [0] + [2] * (TAKES_IN_A_ROW - 1)
    choice.took(2, 3, 10)  # fewer than it asked for, so probably all
    assert choice.shard(0) == 2
    choice.took(2, 0, 10)
    assert choice.shard(0) is None


def test_old_counts_are_not_chosen_by() -> None:
    choice = Choice()
    choice.counted({0: having(100), 1: having(100)}, 0)
    for _ in range(TAKES_IN_A_ROW):
        choice.took(0, 1, 1)
    assert choice.shard(2 * COUNTS_LAST) is None


def test_the_shards_of_others_are_looked_at_now_and_then_and_all_in_turn() -> None:
    choice = Choice()
    assert choice.others((1, 2), 4, 0) == [0, 3]
    assert choice.others((1, 2), 4, HELP_INTERVAL / 2) == []
    choice.helps()
    assert choice.others((1, 2), 4, HELP_INTERVAL / 2) == [0, 3]
    seen: set[int] = set()
    for look in range(1, 8):
        found = choice.others((0,), 100, look)
        assert len(found) == 16
        seen.update(found)
    assert seen == set(range(1, 100))


def calls(target: Target) -> int:
    return target.calls("evalsha") + target.calls("eval")


def test_a_take_from_many_shards_with_little_asks_no_empty_one(
    make_sharded: MakeSharded, target: Target
) -> None:
    queue = make_sharded(16)
    deal(queue, 16)
    queue.stats()
    queue.join()
    before = calls(target)
    taken: list[Any] = []
    while messages := queue.pop_many(10, ack=taken[-1:]):
        taken += messages
    # One take for each message, and 15 acks on other shards; the rest are looks.
    assert len(taken) == 16
    assert calls(target) - before <= 16 + 16 + 3 * 16 + 4


def test_a_consumer_whose_shards_are_empty_helps_where_there_is_much(
    make_sharded: MakeSharded,
) -> None:
    owner, other = make_sharded(4), make_sharded(4)
    for _ in range(2):
        for queue in (owner, other):
            queue.join()
    hot = next(str(n) for n in range(99) if shard_of(str(n), 4) not in other.assigned)
    owner.push_many([b"%d" % n for n in range(500)], key=hot)
    taken = [message for _ in range(10) for message in other.pop_many(50)]
    assert len(taken) == 500
    assert other.ack(*taken) == 500
