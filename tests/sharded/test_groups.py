"""Groups of a sharded queue: each lives on one shard."""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

import ackq
from ackq import Groups
from ackq.membership.shards import shard_names
from ackq.sharded.operations import shard_of
from tests.servers import Target
from tests.sharded.conftest import MakeSharded
from tests.waiting import wait_until

CUSTOMER = Groups("customer")
NAMES = [f"c-{n}" for n in range(12)]


@dataclass
class Order:
    customer: str
    n: int


def names(token: str, shards: int = 4) -> tuple[str, ...]:
    return shard_names(token, shards, 3)


def backlog(target: Target, token: str, shards: int = 4) -> list[int]:
    return [int(target.control.llen(name)) for name in names(token, shards)]


def test_the_group_decides_the_shard_however_it_is_pushed(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue = make_sharded(groups=CUSTOMER)
    home = shard_of("17", 4)
    pushes: list[Any] = [
        lambda: queue.push({"customer": 17}),
        lambda: queue.push({"customer": "17"}, key="another"),
        lambda: queue.push({"n": 1}, group="17"),
        lambda: queue.push(b'{"n":1,"customer":17.0}'),
        lambda: queue.push(b'{"customer":"17","n":NaN}'),
        lambda: queue.push(Order("17", 1)),
        lambda: queue.push({"n": 1}, group=17, dedup="once"),
        lambda: queue.push_many([{"n": 1}], group=17),
        lambda: queue.push_many([{"customer": "17"}, Order("17", 1)], key=lambda _: "another"),
        lambda: queue.push_many([b'{"id":"a","customer":"17"}'], dedup=["other"]),
    ]
    for number, push in enumerate(pushes):
        push()
        lengths = backlog(target, token)
        assert lengths[home] == sum(lengths) > number
    queue.push({"n": 1}, group=17, delay=600)
    assert target.control.zcard(f"{names(token)[home]}DELAYED") == 1
    for number in range(8):
        queue.push({"n": number})
    queue.push_many([{"n": 1}], key="17")
    assert backlog(target, token) == [2 + (11 + 1) * (shard == home) for shard in range(4)]
    for wrong in ({"front": True}, {"unique": "done"}):
        with pytest.raises(ackq.ConfigurationError, match="takes no push with"):
            queue.push({"customer": 17}, **wrong)
        with pytest.raises(ackq.ConfigurationError, match="takes no push with"):
            queue.push_many([{"customer": 17}], **wrong)


def test_messages_of_a_group_are_delivered_in_order_one_at_a_time(
    make_sharded: MakeSharded,
) -> None:
    queue, other = make_sharded(groups=CUSTOMER), make_sharded(groups=CUSTOMER)
    for number in range(10):
        other.push_many([{"id": f"{name}:{number}", "customer": name} for name in NAMES])
    done: dict[str, int] = dict.fromkeys(NAMES, 0)

    def step() -> bool:
        held = [message for each in (queue, other) if (message := each.pop())]
        assert len({message.group for message in held}) == len(held)
        for message in held:
            assert message.id == f"{message.group}:{done[message.group]}"
            done[message.group] += 1
        queue.ack(*held)
        return set(done.values()) == {10}

    wait_until(step, "all messages")
    assert queue.stats().ready == 0


def test_a_freed_group_wakes_a_consumer_that_waits(make_sharded: MakeSharded) -> None:
    queue, other = make_sharded(1, groups=CUSTOMER), make_sharded(None, groups=CUSTOMER)
    queue.push_many([{"id": "a"}, {"id": "b"}], group="c")
    held = queue.pop()
    woken: list[float] = []
    for expected in "bcdefg":
        assert other.pop() is None
        queue.push({"id": chr(ord(expected) + 1)}, group="c")
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(other.pop, timeout=30)
            time.sleep(0.1)  # it waits on the list, which is empty
            began = time.monotonic()
            queue.ack(held)
            held = waiting.result()
        woken.append(time.monotonic() - began)
        assert held.id == expected
    assert statistics.median(woken) < 0.5, woken  # a second without being woken


def test_clients_without_the_groups_are_refused(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue = make_sharded(groups=CUSTOMER)
    queue.push({"id": "a"}, group="c")
    record: Any = target.control.hgetall(f"{{{token}}}:shards")
    assert (record[b"format"], record[b"kind"], record[b"field"]) == (b"2", b"groups", b"customer")
    for settings in ({}, {"groups": Groups("tenant")}):
        other = make_sharded(None, **settings)
        for act in (lambda: other.push({"id": "b"}), other.pop):  # noqa: B023
            with pytest.raises(ackq.GroupsMismatch, match="Producers, too, need the groups"):
                act()
    assert queue.pop().group == "c"


def test_limits_change_on_all_shards_and_one_group_is_held(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue, consumer = make_sharded(groups=CUSTOMER), make_sharded(groups=CUSTOMER)
    for name in NAMES:
        queue.push_many([{"id": f"{name}-{n}"} for n in range(4)], group=name)
    consumer.pop_many(1)
    queue.set_groups(in_flight=2, rate=None)
    records: list[Any] = [target.control.hgetall(f"{each}RECORD") for each in names(token)]
    assert {each[b"in_flight"] for each in records} == {b"2"}
    queue.pause_group(NAMES[0])
    queue.limit_group(NAMES[1], in_flight=3)
    taken: list[str] = []
    while found := [*consumer.pop_many(20), *make_sharded(groups=CUSTOMER).pop_many(20)]:
        taken += [message.group for message in found]
    counts = {name: taken.count(name) for name in NAMES[:3]}
    assert counts[NAMES[1]] in (2, 3)  # one may have been taken before
    assert counts[NAMES[0]] <= 1
    [held] = [each for each in queue.groups() if each.paused_for]
    assert (held.name, held.waiting, len(queue.groups())) == (NAMES[0], 4, 12)
    wait_until(lambda: consumer.pop() or consumer.config.groups.in_flight == 2, "it is known")
    assert (queue.resume_group(NAMES[0]), queue.cancel_group(NAMES[0])) == (1, 4)
    for wrong in ({"max_in_flight": 5}, {"in_flight": 0}):
        with pytest.raises(ackq.ConfigurationError):
            queue.set_groups(**wrong)
    queue.resize(5)
    with pytest.raises(ackq.ConfigurationError, match="is resized now"):
        queue.set_groups(in_flight=9)
    assert make_sharded(None, groups=CUSTOMER).config.groups.in_flight == 1  # until its first call
