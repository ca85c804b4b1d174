"""The number of shards changes while messages of groups are in every state."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError

import ackq
from ackq import Groups, QueueConfig
from ackq.membership.shards import shard_names
from ackq.queue.record import fields_of
from ackq.sharded import ShardedQueue, operations, resize
from tests.servers import Target
from tests.sharded.conftest import MakeSharded
from tests.sharded.scripted import Scripted
from tests.sharded.test_resize import fill
from tests.waiting import wait_until

CUSTOMER = Groups("customer")
RECORD = fields_of(QueueConfig(groups=Groups("customer")))


def names(token: str, shards: int) -> tuple[str, ...]:
    return shard_names(token, shards, 3)


def forget(target: Target, token: str, *numbers: int) -> None:
    """Delete what stays of former shards."""
    for number in numbers:
        for name in names(token, number):
            for suffix in ("", "CONTEXT", "RECORD"):
                target.control.delete(f"{name}{suffix}")


def is_over(queue: Any, target: Target, token: str) -> bool:
    queue.pop()
    return bool(target.control.hget(f"{{{token}}}:shards", "draining") == b"")


def take(queue: Any) -> Any:
    """Return the next message as soon as there is one."""
    return wait_until(queue.pop, "a message")


def of_shard(shard: int, shards: int) -> str:
    """Return a group that lives on this shard."""
    return next(str(n) for n in range(99) if operations.shard_of(str(n), shards) == shard)


def test_a_new_shard_waits_for_the_former_ones_of_its_groups(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue, late = make_sharded(2, groups=CUSTOMER), make_sharded(2, groups=CUSTOMER)
    a, b = of_shard(0, 4), of_shard(1, 4)  # of shards 0 and 1 of two as well
    queue.push_many([{"id": f"{group}:{n}", "customer": group} for n in (1, 2) for group in (a, b)])
    first = {message.group: message for message in (take(queue), take(queue))}
    queue.push({"id": "later"}, group=a, delay=0.2)
    late.stats()
    queue.resize(4)
    inner: Any = getattr(late, "_wrapped", late)
    inner._next_read = float("inf")  # as if its last read was less than a second ago
    late.push({"id": f"{a}:3"}, group=a)
    inner._next_read = float("inf")
    late.push_many([{"id": f"{b}:3"}], group=b)
    assert [target.control.type(name) for name in names(token, 2)] == [b"string"] * 2
    assert [target.control.llen(name) for name in names(token, 4)] == [1, 1, 0, 0]
    stats = queue.stats()
    assert (stats.ready + stats.delayed, stats.in_flight) == (5, 2)
    assert late.pop() is queue.pop() is None
    queue.ack(first[a])
    taken = [take(queue)]
    for _ in range(2):
        assert queue.ack(taken[-1]) == 1
        taken.append(take(queue))
    assert {each.id for each in taken[:2]} == {f"{a}:2", "later"}
    assert (taken[2].id, queue.ack(taken[2])) == (f"{a}:3", 1)
    assert queue.pop() is None  # the other one of the former two has a message in flight
    late.ack(first[b])
    assert take(late).id == f"{b}:2"
    assert queue.pop() is None
    with pytest.raises(ackq.ConfigurationError, match="shards of its former number"):
        queue.resize(3)
    assert queue.find(f"{b}:2").state == "in_flight"
    assert queue.purge() == 2
    wait_until(lambda: is_over(queue, target, token), "the former shards to be closed")
    forget(target, token, 2)


def test_producers_and_consumers_keep_the_order_over_resizes(
    make_sharded: MakeSharded, target: Target, token: str, flavour: str
) -> None:
    if flavour == "async":
        pytest.skip("the threads have blocking clients")
    queue = make_sharded(3, groups=CUSTOMER)
    queue.stats()
    groups = {f"c-{n}": threading.Lock() for n in range(30)}
    pushed, done, wrong = Counter[str](), Counter[str](), list[str]()
    stop = threading.Event()

    def client() -> ShardedQueue:
        return ShardedQueue(target.make_client(), token, groups=CUSTOMER, session_timeout=2)

    def produce(seed: int) -> None:
        draw = random.Random(seed)
        with client() as producer:
            while not stop.is_set():
                group = draw.choice(list(groups))
                with groups[group]:  # so that the order of the pushes is known
                    message = {"id": f"{group}:{pushed[group]}", "customer": group}
                    if draw.random() < 0.5:
                        producer.push(message)
                    else:
                        producer.push_many([message])
                    pushed[group] += 1

    def consume(seed: int) -> None:
        draw = random.Random(seed)
        with client() as consumer:
            while not wrong and (not stop.is_set() or done != pushed):
                messages = consumer.pop_many(3, timeout=0.1)
                for at, message in enumerate(messages):
                    group = str(message.group)
                    if message.id != f"{group}:{done[group]}":
                        wrong.append(message.id)
                    if draw.random() < 0.02:
                        consumer.release(*messages[at:])
                        break
                    done[group] += 1
                    consumer.ack(message)

    crew = [threading.Thread(target=produce, args=(n,)) for n in range(3)]
    crew += [threading.Thread(target=consume, args=(n,)) for n in range(3)]
    for each in crew:
        each.start()
    numbers = [4, 2, 3]
    try:
        for number in numbers:
            enough = pushed.total() + 100
            wait_until(lambda: wrong or pushed.total() > enough, "some messages")  # noqa: B023
            wait_until(lambda: wrong or resized(queue, number), "the former shards to be closed")  # noqa: B023
    finally:
        stop.set()
        for each in crew:
            each.join()
    assert (wrong, done) == ([], pushed)
    wait_until(lambda: is_over(queue, target, token), "the former shards to be closed")
    forget(target, token, 3, *numbers)


def resized(queue: Any, shards: int) -> bool:
    try:
        queue.resize(shards)
    except ackq.ConfigurationError:
        return False
    return True


@pytest.mark.parametrize("steps", range(11))
def test_whoever_comes_next_goes_on_with_a_change_that_ended_early(
    plain_client: redis.Redis, token: str, steps: int
) -> None:
    made = [ShardedQueue(plain_client, token, groups=CUSTOMER) for _ in range(2)]
    with (
        ShardedQueue(plain_client, token, 2, groups=CUSTOMER) as late,
        made[0] as producer,
        made[1] as consumer,
    ):
        group = of_shard(1, 2)
        late.push_many([{"id": "0"}, {"id": "1"}], group=group)
        held = take(late)
        late._next_read = float("inf")  # as if its last read was less than a second ago
        record = f"{{{token}}}:shards"
        former, new = names(token, 2), names(token, 3)
        acts: list[Callable[[], Any]] = [
            *(partial(late.queue_of(name).execute, resize.retire, 1) for name in new),
            partial(late.execute, resize.change, token, 1, 3, (2,)),
            *(partial(late.queue_of(name).execute, resize.close, 2) for name in former),
            *(partial(late.queue_of(name).execute, resize.revive, 2) for name in new),
            partial(late.queue_of(new[0]).execute, resize.release, 1),  # of another change
        ]
        for act in acts[:steps]:
            act()
        late.push({"id": "2"}, group=group)
        producer.push({"id": "3"}, group=group)
        assert consumer.pop() is None
        assert late.ack(held) == 1
        for expected in "123":
            message = take(consumer)
            assert message.id == expected
            consumer.ack(message)
        consumer.resize(3)
        wait_until(
            lambda: (
                consumer.pop() or plain_client.hmget(record, "shards", "draining") == [b"3", b""]
            ),
            "the former shards to be closed",
        )
        keys: Any = plain_client.keys(f"{{{token}*")
        plain_client.delete(*keys)


def test_dead_letters_of_former_shards_hold_nothing_up_and_come_to_the_new_ones(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue = make_sharded(2, groups=CUSTOMER)
    for group in map(str, range(4)):
        queue.push_many([{"id": f"{group}:{n}"} for n in (1, 2)], group=group)
        message = take(queue)
        queue.reject(message, reason="no")
        queue.ack(take(queue))
    queue.resize(3)
    queue.push({"id": "after"}, group="0")
    queue.ack(take(queue))
    stats = queue.stats()
    assert (stats.ready, stats.dead, len(queue.dead_letters())) == (0, 4, 4)
    assert queue.find("1:1").state == "dead"
    assert {each.id for each in queue.search({"customer": "2"})} == {"2:1"}
    with pytest.raises(ackq.ConfigurationError, match="redrive or drop the dead letters"):
        queue.resize(2)
    assert queue.redrive(1) == 1
    assert queue.redrive() == 3
    assert {take(queue).id for _ in range(4)} == {f"{group}:1" for group in range(4)}
    assert queue.stats().dead == 0
    queue.resize(2)  # and back
    assert queue.stats().in_flight == 4
    assert queue.purge() == 4
    wait_until(lambda: is_over(queue, target, token), "the former shards to be closed")
    forget(target, token, 2, 3)


# --- the scripts ------------------------------------------------------------------------


def test_a_shard_is_closed_with_its_messages(scripted: Scripted) -> None:
    shard, client = f"{{{scripted.name}}}0", scripted.client
    client.lpush(shard, "a", "b")
    assert scripted.call("close", 5) == scripted.call("close", 6) == 1
    assert client.get(shard) == b"closed 5"
    assert client.lrange(f"{shard}GROUPS:CLOSED", 0, -1) == [b"b", b"a"]
    client.delete(shard)
    assert scripted.call("close", 7) == 1  # an empty one
    client.delete(shard, f"{shard}GROUPS:CLOSED")
    client.lpush(shard, "a")
    client.hset(f"{shard}RECORD", "since", 7)
    assert scripted.call("close", 7) == 0
    assert client.type(shard) == b"list"
    client.lpush(f"{shard}GROUPS:CLOSED", "b")
    assert scripted.call("close", 8) == 0  # it does not replace messages
    assert client.lrange(f"{shard}GROUPS:CLOSED", 0, -1) == [b"b"]
    client.set(shard, "mine")
    assert scripted.call("close", 8) == 0
    for version in (0, 1.5, "x", ""):
        with pytest.raises(ResponseError, match="ACKQ_ARGUMENT sharded/close"):
            scripted.call("close", version)


def test_a_shard_that_was_retired_too_early_stays_retired_when_it_is_closed(
    scripted: Scripted,
) -> None:
    shard, client = f"{{{scripted.name}}}0", scripted.client
    assert scripted.call("retire", 4) == 1
    assert scripted.call("close", 6) == scripted.call("close", 5) == 1
    assert client.mget(shard, f"{shard}CONTEXT") == [b"6", b"6"]
    assert scripted.call("revive", 6) == 0


KINDS = {
    "BACKUP": "zset",
    "CONTEXT": "hash",
    "HANDOFF": "list",
    "DELAYED": "zset",
    "PAUSED": "string",
    "GROUPS:PARKED": "zset",
    "GROUPS:CLOSED": "list",
    "GROUPS:STOPPED": "hash",
}
LEFT_BEHIND = {
    "RECEIVES": "hash",
    "EXTENDED": "hash",
    "RECORD": "hash",
    "ERRORS": "hash",
    "GROUPS:BUSY": "hash",
    "GROUPS:TURNS": "zset",
    "GROUPS:FLIGHT": "hash",
    "GROUPS:RUNS": "zset",
    "GROUPS:WOKEN": "string",
    "GROUPS:RATES": "zset",
}


def test_a_closed_shard_is_sealed_only_if_it_has_nothing_to_deliver(scripted: Scripted) -> None:
    shard, client = f"{{{scripted.name}}}0", scripted.client
    assert scripted.call("seal") == 0
    assert scripted.call("close", 5) == 1
    for suffix, kind in KINDS.items():
        fill(client, f"{shard}{suffix}", kind)
        assert scripted.call("seal") == 0, suffix
        assert client.get(shard) == b"closed 5"
        client.delete(f"{shard}{suffix}")
    for suffix, kind in LEFT_BEHIND.items():
        fill(client, f"{shard}{suffix}", kind)
    client.xadd(f"{shard}DEAD", {"key": "a"}, id="1-0")
    assert scripted.call("seal") == scripted.call("seal") == 2
    assert client.mget(shard, f"{shard}CONTEXT") == [b"5", b"5"]
    client.xdel(f"{shard}DEAD", "1-0")
    assert scripted.call("seal") == 1
    keys: Any = client.keys(f"{shard}*")
    assert set(keys) == {shard.encode(), f"{shard}CONTEXT".encode()}
    client.set(shard, "mine")
    assert scripted.call("seal") == 0


def test_a_new_shard_is_held_from_its_opening_to_its_release(scripted: Scripted) -> None:
    shard, client = f"{{{scripted.name}}}0", scripted.client
    assert scripted.call("retire", 4) == 1
    for args in ((5, "format"), (5, "kind", "left")):
        with pytest.raises(ResponseError, match="ACKQ_ARGUMENT sharded/revive"):
            scripted.call("revive", *args, grouped=True)
    settings = [part for pair in RECORD.items() for part in pair]
    assert scripted.call("revive", 5, *settings, grouped=True) == 1
    open = {name.encode(): value.encode() for name, value in (RECORD | {"since": "5"}).items()}
    for version in (4, 6):
        assert scripted.call("release", version) == 0
    assert client.hgetall(f"{shard}RECORD") == open | {b"waits": b"1"}
    assert scripted.call("release", 5) == 1
    assert scripted.call("release", 5) == 0
    assert client.hgetall(f"{shard}RECORD") == open
    for wrong in (0, "x", 1.5):
        with pytest.raises(ResponseError, match="ACKQ_ARGUMENT sharded/release"):
            scripted.call("release", wrong)
