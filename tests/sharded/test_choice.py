"""Which shard a take tries, and what looks and acks cost."""

import time
from typing import Any

import pytest

from ackq.membership.shards import shard_names
from ackq.sharded import choice as choice_module
from ackq.sharded.choice import COUNTS_LAST, HELP_INTERVAL, TAKES_IN_A_ROW, Choice
from ackq.sharded.operations import ShardCounts, shard_of
from tests.servers import Target
from tests.sharded.conftest import MakeSharded
from tests.sharded.scripted import Scripted
from tests.sharded.test_sharded import deal


def having(ready: int, paused: bool = False) -> ShardCounts:
    return ShardCounts(ready, paused, None)


def test_takes_stay_on_a_shard_then_go_on_to_the_next_that_has_messages() -> None:
    choice = Choice(0)
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


def test_counts_last_for_a_while_and_takes_in_a_row_are_limited() -> None:
    choice = Choice(0)
    choice.counted({2: having(100), 5: having(10)}, 50.0)
    for _ in range(TAKES_IN_A_ROW - 1):
        choice.took(2, 1, 1)
    assert choice.shard(1e6) == 2  # a shard that still gives is no question of counts
    choice.took(2, 1, 1)
    assert choice.shard(50.0 + COUNTS_LAST + 0.001) is None
    assert choice.shard(50.0 + COUNTS_LAST) == 5
    assert choice.shard(50.0) == 5  # counting of its takes restarts
    for _ in range(TAKES_IN_A_ROW):
        choice.took(5, 1, 1)
    assert choice.shard(50.0) == 2


def test_the_next_shard_is_the_first_one_behind_that_has_messages() -> None:
    for full, expected in (((0, 1), 0), ((1, 2), 1), ((2,), 2)):
        choice = Choice(0)
        choice.counted({number: having(number in full) for number in range(4)}, 0)
        choice.took(max(full), 0, 1)  # another consumer was faster
        choice._ready = dict.fromkeys(full, 5)
        assert choice.shard(0) == expected  # it is on none: it begins with the first
    choice = Choice(0)
    choice.counted({0: having(9), 1: having(99), 2: having(1), 3: having(0)}, 0)
    for expected in (1, 2, 0, 1):
        assert choice.shard(0) == expected
        choice.took(expected, 1, 1)
        choice._takes = TAKES_IN_A_ROW


def test_what_a_take_got_decides_whether_the_shard_is_still_full() -> None:
    def after(ready: int, messages: int, wanted: int) -> int | None:
        choice = Choice(0)
        choice.counted({0: having(ready)}, 0)
        choice.took(0, messages, wanted)
        return choice._current

    assert after(10, 5, 5) == 0
    assert after(10, 4, 5) is None  # fewer than wanted
    assert after(5, 5, 5) is None  # all that there were
    assert after(6, 5, 5) == 0
    assert after(10, 0, 5) is None
    choice = Choice(0)
    choice.counted({0: having(10)}, 0)
    choice.took(0, 0, 5)
    assert choice.shard(0) is None  # an empty take says that nothing is left
    choice.took(7, 3, 3)  # a shard of others, which was not counted
    assert choice.shard(0) is None


def test_the_fullest_shard_is_chosen_and_paused_ones_are_empty() -> None:
    choice = Choice(0)
    assert choice.counted({0: having(3), 1: having(7), 2: having(99, True)}, 0) == 1
    assert choice.shard(0) == 1
    assert choice.counted({2: having(99, True)}, 0) is None
    assert choice.shard(0) is None
    assert choice.counted({4: having(1)}, 0) == 4


def test_the_shards_of_others_are_looked_at_again_after_the_interval() -> None:
    choice = Choice(0)
    assert choice.others((), 16, 2, 7.0) == list(range(16))
    assert choice.others((), 16, 2, 7.0 + HELP_INTERVAL) == list(range(16))
    assert choice.others((), 16, 2, 7.0 + 1.9 * HELP_INTERVAL) == []
    # Each look reads 16 of 48 shards, so 300 consumers are two seconds apart.
    owned = range(16)
    assert len(choice.others(owned, 48, 300, 50.0)) == 16
    assert choice.others(owned, 48, 300, 51.9) == []
    assert len(choice.others(owned, 48, 300, 52.01)) == 16
    assert choice.others(range(47), 48, 2400, 60.0) == [47]  # one is read, so one second apart
    assert choice.others(range(47), 48, 2400, 60.9) == []
    assert choice.others(range(47), 48, 2400, 61.01) == [47]
    looks = [choice.others((16,), 17 + 16, 2, 100.0 + look) for look in range(2)]
    assert sorted(looks[0] + looks[1]) == [number for number in range(33) if number != 16]
    assert all(look == sorted(look) for look in looks)


def test_consumers_begin_with_different_shards_of_others() -> None:
    begun = {tuple(Choice(first).others((), 64, 2, 0)) for first in range(12)}
    assert len(begun) > 1


def test_the_shards_of_others_are_looked_at_now_and_then_and_all_in_turn() -> None:
    choice = Choice(0)
    assert choice.others((1, 2), 4, 2, 0) == [0, 3]
    assert choice.others((1, 2), 4, 2, HELP_INTERVAL / 2) == []
    choice.helps()
    assert choice.others((1, 2), 4, 2, HELP_INTERVAL / 2) == [0, 3]
    seen: set[int] = set()
    for look in range(1, 8):
        found = choice.others((0,), 100, 100, look)
        assert len(found) == 16
        seen.update(found)
    assert seen == set(range(1, 100))


@pytest.mark.parametrize(("shards", "consumers"), [(12, 12), (1000, 1000), (12, 3000)])
def test_a_shard_is_not_looked_at_the_more_the_more_consumers_there_are(
    shards: int, consumers: int
) -> None:
    choice = Choice(0)
    choice.others((0,), shards, consumers, 0)
    looks = sum(len(choice.others((0,), shards, consumers, 0.1 * at)) for at in range(1, 1001))
    assert looks * consumers <= 100 * choice_module.LOOK_RATE * shards
    assert looks or consumers == 3000


def calls(target: Target) -> int:
    return target.calls("evalsha") + target.calls("eval")


def test_a_take_from_many_shards_with_little_asks_no_empty_one(
    make_sharded: MakeSharded, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice_module, "COUNTS_LAST", 60)  # this machine may be slow
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
    # A node that lacks a script is asked twice.
    assert calls(target) - before <= 16 + 16 + 3 * 16 + 16


def test_takes_in_a_row_cost_a_call_each_and_a_wait_asks_no_more(
    make_sharded: MakeSharded, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice_module, "COUNTS_LAST", 60)
    queue = make_sharded(3, session_timeout=60)
    queue.push_many([b"%d" % number for number in range(5)], key="k")
    assert queue.pop() is not None
    costs = []
    for _ in range(4):
        before = calls(target)
        assert queue.pop() is not None
        costs.append(calls(target) - before)
    assert min(costs) == 1  # heartbeats count, too
    queue.pop()
    before = calls(target)
    assert queue.pop(timeout=0.1) is None
    # One look at each shard; the waits know what it found, and go on when the pop has ended.
    # A heartbeat and a reading of the record may come between.
    assert calls(target) - before <= 3 + 2


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


def test_a_shard_that_others_have_emptied_meanwhile_is_no_reason_to_give_up(
    make_sharded: MakeSharded, target: Target, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice_module, "COUNTS_LAST", 60)
    queue = make_sharded(3)
    queue.join()
    lists = shard_names(token, 3)
    for number, size in enumerate((2, 1)):
        target.control.lpush(lists[number], *[b"{}"] * size)
    assert len(queue.pop_many(2)) == 2
    assert target.control.rpop(lists[1])
    target.control.lpush(lists[2], b'{"id":"late"}')
    assert [message.id for message in queue.pop_many(1)] == ["late"]


def test_a_look_counts_what_a_pop_would_take(scripted: Scripted) -> None:
    shard, client = f"{{{scripted.name}}}0", scripted.client
    assert scripted.call("look") == [0, 0, -1]
    soon = int(time.time() * 1e6) + 60_000_000
    client.lpush(shard, "a", "b")
    client.lpush(f"{shard}HANDOFF", "c")
    assert scripted.call("look") == [3, 0, -1]
    for expected, suffix in ((5, "BACKUP"), (7, "DELAYED"), (9, "HELD")):
        client.zadd(f"{shard}{suffix}", {"a": 1, "b": 2, "c": soon})
        ready, paused, wait = scripted.call("look")
        assert (ready, paused, wait) == (expected, 0, -1)
    for suffix in ("BACKUP", "DELAYED", "HELD"):
        client.zrem(f"{shard}{suffix}", "a", "b")
    client.zadd(f"{shard}DELAYED", {"c": soon - 30_000_000})
    client.set(f"{shard}PAUSED", 1)
    ready, paused, wait = scripted.call("look")
    assert (ready, paused) == (3, 1)
    assert 0 < wait <= 30_000_000


def test_a_look_counts_the_groups_whose_turn_it_is(scripted: Scripted) -> None:
    shard, client = f"{{{scripted.name}}}0", scripted.client
    looks, soon = f"{shard}WAITERS:LOOKS", int(time.time() * 1e6) + 60_000_000
    client.zadd(f"{shard}GROUPS:TURNS", {"a": 1, "b": 2, "c": soon})
    assert scripted.call("look") == [0, 0, -1]
    assert scripted.call("look", grouped=True) == [2, 0, -1]
    assert not client.exists(looks)
    client.zrem(f"{shard}GROUPS:TURNS", "a", "b")
    ready, paused, wait = scripted.call("look", grouped=True)
    assert (ready, paused) == (0, 0)
    assert 0 < wait <= 60_000_000
    assert 9000 < client.pttl(looks) <= 10_000
