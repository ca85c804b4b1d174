"""The number of shards changes while messages are in every state."""

from collections import Counter
from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError

import ackq
from ackq import Queue
from ackq.membership.shards import Shards, shard_names
from ackq.queue.stages import stage_of
from ackq.sharded import operations, resize
from tests.servers import Target
from tests.sharded.conftest import MakeSharded
from tests.sharded.scripted import Scripted
from tests.sharded.test_sharded import deal
from tests.waiting import wait_until


def record(target: Target, token: str) -> tuple[int, bytes]:
    found: Any = target.control.hmget(f"{{{token}}}:shards", "shards", "draining")
    return int(found[0]), found[1]


def take_all(queue: Any, count: int) -> list[str]:
    """Take and ack ``count`` messages, and return their ids."""
    messages = hold_all(queue, count)
    assert queue.ack(messages) == count
    return [message.id for message in messages]


def hold_all(queue: Any, count: int) -> list[ackq.Message]:
    """Take ``count`` messages."""
    taken: list[ackq.Message] = []

    def step() -> bool:
        taken.extend(queue.pop_many(100))
        return len(taken) >= count

    wait_until(step, f"{count} messages")
    return taken


def test_messages_in_every_state_are_found_after_a_resize(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue = make_sharded(4)
    deal(queue, 16)
    held = [queue.pop() for _ in range(12)]
    queue.push({"id": "later"}, delay=0.5)
    dead = next(each for each in held if each.queue not in shard_names(token, 6))
    held.remove(dead)
    queue.reject(dead)
    queue.resize(6)
    assert record(target, token) == (6, b"4")
    deal(queue, 12)
    assert queue.ack(*held) == 11
    assert queue.stats().dead == 1
    assert len(take_all(queue, 4 + 12 + 1)) == 17
    assert record(target, token)[1] == b"4"  # as long as there is a dead letter
    assert queue.redrive() == 1
    assert len(take_all(queue, 1)) == 1

    def drained() -> bool:
        queue.pop()
        return record(target, token) == (6, b"")

    wait_until(drained, "the former shards to be closed")
    former = set(shard_names(token, 4)) - set(shard_names(token, 6))
    assert former
    for name in former:
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            target.control.lpush(name, "late")
    queue.resize(4)  # and back
    assert [shard.name for shard in queue.shards()][:4] == list(shard_names(token, 4))
    deal(queue, 8)
    assert len(take_all(queue, 8)) == 8
    wait_until(lambda: queue.pop() or record(target, token) == (4, b""), "closed again")
    for name in (*shard_names(token, 4), *shard_names(token, 6)):
        target.control.delete(name, f"{name}CONTEXT")


def test_a_producer_with_an_old_record_pushes_to_the_new_shards(
    make_sharded: MakeSharded, target: Target, token: str, flavour: str
) -> None:
    late, queue = make_sharded(4), make_sharded(4)
    late.stats()
    inner = late if flavour == "sync" else late._wrapped
    inner._next_read = float("inf")  # as if its last read was less than a second ago
    queue.resize(5)

    def drained() -> bool:
        queue.pop()
        return record(target, token) == (5, b"")

    wait_until(drained, "the former shards to be closed")
    gone = set(shard_names(token, 4)) - set(shard_names(token, 5))
    assert gone
    for number in range(8):
        inner._next_read = float("inf")
        late.push({"id": f"a{number}"})
        late.push({"id": f"b{number}"}, delay=0)
        late.push_many([{"id": f"c{number}"}])
        late.push({"id": f"d{number}"}, dedup=f"d{number}")
    assert len(take_all(queue, 32)) == 32
    for name in gone:
        assert not target.control.exists(f"{name}DELAYED")


def test_unique_messages_stay_unique_during_a_resize(make_sharded: MakeSharded) -> None:
    queue, other = make_sharded(4), make_sharded()
    messages = [{"id": f"a{n}"} for n in range(20)]
    assert all(queue.push(each, unique="done").stored for each in messages[:10])
    pushed = other.push_many(messages, unique="done")
    assert [each.stored for each in pushed] == [False] * 10 + [True] * 10
    queue.resize(3)
    assert not any(each.stored for each in queue.push_many(messages, unique="done"))
    assert queue.push({"n": 1}, unique="done", unique_by=["n"]) == "n=1"
    assert len(take_all(queue, 21)) == 21
    assert queue.push(messages[0], unique="done").stored
    with pytest.raises(ackq.ConfigurationError, match="leave out key"):
        queue.push({"id": "b"}, unique="done", key="k")


def test_a_redrive_after_a_resize_finds_what_other_shards_have(make_sharded: MakeSharded) -> None:
    queue = make_sharded(2)
    messages = [{"id": f"a{n}"} for n in range(12)]
    queue.push_many(messages, unique="done")
    queue.push_many([{"id": "a1"}, {"id": "plain"}])
    queue.reject(hold_all(queue, 14))
    queue.resize(5)
    assert all(each.stored for each in queue.push_many(messages[:8], unique="done"))
    redriven = queue.redrive()
    assert (redriven, len(redriven.refused)) == (6, 8)
    assert sorted(take_all(queue, 14)) == sorted(
        [*(each["id"] for each in messages), "a1", "plain"]
    )
    assert {letter.id for letter in queue.dead_letters()} == {each["id"] for each in messages[:8]}
    assert queue.redrive(force=True) == 8


def test_what_runs_on_a_former_shard_does_not_refuse_what_is_unique_while_it_waits(
    make_sharded: MakeSharded,
) -> None:
    queue = make_sharded(2)
    messages = [{"id": f"a{n}"} for n in range(4)]
    queue.push_many(messages, unique="taken")
    running = hold_all(queue, 4)
    queue.resize(5)
    assert not any(queue.push(each, unique="done").stored for each in messages)
    assert all(queue.push(each, unique="taken").stored for each in messages)
    queue.ack(running)


def test_a_resize_that_ends_at_any_step_strands_nothing(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue, control = make_sharded(2), target.control
    queue.stats()
    new = next(each for each in shard_names(token, 3) if each not in shard_names(token, 2))
    with (
        Queue(target.make_client(), f"{{{token}}}") as home,
        Queue(target.make_client(), new) as shard,
    ):

        def closed() -> bool:
            queue.pop()
            return record(target, token) == (2, b"")

        def version() -> int:
            return int(control.hget(f"{{{token}}}:shards", "version"))  # type: ignore[arg-type]

        # It ends after the announcement: the new shards are closed.
        announced = home.execute(resize.change, token, 1, 2, resize.announced(Shards(2, 2), 3))
        assert announced == 2
        wait_until(closed, "the new shards to be closed")
        assert control.type(new) == b"string"
        # It was frozen meanwhile: its version is too old to open them.
        assert shard.execute(resize.revive, announced) is False
        assert home.execute(resize.change, token, announced, 3, {2}) == 0
        # It ends after a shard was opened, and a producer finds it.
        announced = home.execute(resize.change, token, version(), 2, {3})
        assert shard.execute(resize.revive, announced) is True
        control.lpush(new, '{"id":"late"}')
        assert take_all(queue, 1) == ["late"]
        wait_until(closed, "the new shards to be closed again")
        queue.resize(3)
        deal(queue, 9)
        assert len(take_all(queue, 9)) == 9
        for name in (*shard_names(token, 2), *shard_names(token, 3)):
            control.delete(name)
            control.delete(f"{name}CONTEXT")


def test_a_shard_in_use_that_was_closed_by_a_frozen_consumer_is_opened_again(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue = make_sharded(2)
    queue.resize(3)
    names = shard_names(token, 3)
    with Queue(target.make_client(), names[0]) as shard:
        for act in (lambda: deal(queue, 6), lambda: queue.pop()):
            take_all(queue, 6) if act() is None and queue.stats().ready else None
            assert shard.execute(resize.retire, 1)
        deal(queue, 6)
        assert len(take_all(queue, 6)) == 6
        for look in (
            queue.stats,
            queue.oldest_ready,
            queue.dead_letters,
            queue.redrive,
            queue.purge,
            queue.pause,
            queue.resume,
        ):
            assert shard.execute(resize.retire, 1)
            look()
    for name in (*shard_names(token, 2), *names):
        target.control.delete(name)
        target.control.delete(f"{name}CONTEXT")


def test_a_pop_goes_on_if_a_shard_is_closed_before_it_waits_there(
    make_sharded: MakeSharded, target: Target, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make_sharded(2)
    queue.resize(3)
    names = shard_names(token, 3)
    closed: list[bool] = []
    wait = operations.wait
    with (
        Queue(target.make_client(), names[0]) as shard,
        Queue(target.make_client(), names[1]) as other,
    ):

        def close_and_wait(spec: Any, *args: Any) -> Any:
            if spec.name == names[0] and not closed:
                closed.append(shard.execute(resize.retire, 1))
                other.push({"id": "a"})
            return (yield from wait(spec, *args))

        monkeypatch.setattr(operations, "wait", close_and_wait)
        message = queue.pop(timeout=30)
        assert (closed, message and message.id) == ([True], "a")
        queue.ack(message)
    for name in (*shard_names(token, 2), *names):
        target.control.delete(name)
        target.control.delete(f"{name}CONTEXT")


def test_a_read_of_all_shards_goes_on_if_they_are_closed_meanwhile_one_by_one(
    make_sharded: MakeSharded, target: Target, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make_sharded(4)
    queue.resize(6)
    looks: Counter[str] = Counter()
    is_retired, later = resize.is_retired, shard_names(token, 6)
    gone = [name for name in shard_names(token, 4) if name not in later]

    def closed_afterwards(spec: Any) -> Any:
        looks[spec.name] += 1
        retired = yield from is_retired(spec)
        if looks[spec.name] == gone.index(spec.name) + 1:
            yield from resize.retire(spec, 10)
        return retired

    monkeypatch.setattr(resize, "is_retired", closed_afterwards)
    assert queue.stats().ready == 0
    assert list(looks.values()) == [len(gone) + 1] * len(gone)
    for name in gone:
        target.control.delete(name, f"{name}CONTEXT")


@pytest.mark.parametrize(
    ("groups", "dead"),
    [(None, False), (ackq.Groups("group"), False), (ackq.Groups("group"), True)],
    ids=["plain", "groups", "groups with dead letters"],
)
def test_a_lease_that_ended_before_its_shard_was_closed_is_lost(
    make_sharded: MakeSharded, target: Target, token: str, groups: Any, dead: bool
) -> None:
    frozen, queue = make_sharded(4, groups=groups), make_sharded(4, groups=groups)
    queue.push_many([{"id": str(n), "group": str(n)} for n in range(12)])
    held = wait_until(lambda: frozen.pop_many(12, visibility_timeout=0.001), "messages")
    queue.resize(6)
    taken = hold_all(queue, 12)
    (queue.reject if dead else queue.ack)(*taken)
    former = {each.queue for each in held}

    def drained() -> bool:
        queue.pop()
        if not dead:
            return record(target, token) == (6, b"")
        return all(queue.queue_of(name).execute(stage_of) == "sealed" for name in former)

    wait_until(drained, "the former shards to be closed")
    for settle in (frozen.extend, frozen.ack, frozen.nack):
        with pytest.raises(ackq.LeaseLost) as lost:
            settle(*held)
        assert {*lost.value.messages} == {*held}
    queue.purge(dead=True)
    for name in {each.name for each in frozen.shards()} ^ former:
        target.control.delete(name, f"{name}CONTEXT")


def test_a_queue_of_the_first_format_keeps_its_number(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    target.control.lpush(f"{{{token}:0}}", "a")
    with pytest.raises(ackq.ConfigurationError, match="has format 1"):
        make_sharded(2).resize(3)


# --- the scripts ------------------------------------------------------------------------


def test_a_change_needs_the_version_that_it_is_based_on(scripted: Scripted) -> None:
    assert scripted.call("change", 1, 3, "") == 0
    assert not scripted.client.exists(scripted.record)
    scripted.call("open", 2)
    assert scripted.call("change", 1, 3, "2 5") == 2
    assert scripted.call("change", 1, 4, "") == scripted.call("change", 3, 4, "") == 0
    assert scripted.call("open", 0) == [2, 3, 2, b"2 5"]
    for args in ((0, 3, ""), (2, 0, ""), (2, 1025, ""), (2, 3, "x"), (2, 3, "1" * 8193), (2, 3)):
        with pytest.raises(ResponseError, match="ACKQ_ARGUMENT sharded/change"):
            scripted.call("change", *args)
    assert scripted.call("open", 0) == [2, 3, 2, b"2 5"]


KINDS = {
    "": "list",
    "BACKUP": "zset",
    "CONTEXT": "hash",
    "HANDOFF": "list",
    "RECEIVES": "hash",
    "EXTENDED": "hash",
    "DELAYED": "zset",
    "DEAD": "stream",
    "HELD": "zset",
    "HELDROWS": "hash",
    "PAUSED": "string",
}


def fill(client: redis.Redis, key: str, kind: str) -> None:
    fills: dict[str, Any] = {
        "list": lambda: client.lpush(key, "a"),
        "zset": lambda: client.zadd(key, {"a": 1}),
        "hash": lambda: client.hset(key, "a", "1"),
        "stream": lambda: client.xadd(key, {"a": "1"}),
        "string": lambda: client.set(key, "left"),
    }
    fills[kind]()


def test_a_shard_is_retired_only_if_it_has_nothing(scripted: Scripted) -> None:
    shard, client = f"{{{scripted.name}}}0", scripted.client
    for suffix, kind in KINDS.items():
        fill(client, shard + suffix, kind)
        assert scripted.call("retire", 5) == 0, suffix
        assert client.type(shard + suffix) == kind.encode()
        client.delete(shard + suffix)
    client.set(shard, "of another program")
    assert scripted.call("retire", 5) == 0
    assert client.get(shard) == b"of another program"
    client.delete(shard)
    fill(client, f"{shard}RECORD", "hash")
    fill(client, f"{shard}NOTES", "hash")
    client.xdel(f"{shard}DEAD", client.xadd(f"{shard}DEAD", {"a": "1"}))
    assert scripted.call("retire", 5) == 1
    assert client.mget(shard, f"{shard}CONTEXT") == [b"5", b"5"]
    assert not client.exists(f"{shard}DEAD", f"{shard}RECORD", f"{shard}NOTES")
    assert scripted.call("retire", 4) == 1
    assert client.get(shard) == b"5"
    assert scripted.call("retire", 7) == 1
    assert client.mget(shard, f"{shard}CONTEXT") == [b"7", b"7"]
    with pytest.raises(ResponseError, match="ACKQ_ARGUMENT sharded/retire"):
        scripted.call("retire", 0)


def test_a_shard_is_revived_by_a_later_version_only(scripted: Scripted) -> None:
    shard, client = f"{{{scripted.name}}}0", scripted.client
    assert scripted.call("revive", 9) == 0
    scripted.call("retire", 5)
    assert scripted.call("revive", 4) == scripted.call("revive", 5) == 0
    assert client.get(shard) == b"5"
    assert scripted.call("revive", 6) == 1
    assert not client.exists(shard, f"{shard}CONTEXT")
    client.lpush(shard, "a")
    assert scripted.call("revive", 6) == 0
    assert client.llen(shard) == 1
    with pytest.raises(ResponseError, match="ACKQ_ARGUMENT sharded/revive"):
        scripted.call("revive", "x")
