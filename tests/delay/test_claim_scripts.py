"""The scripts of claims, one by one: what they lease, keep, delete and return."""

import pytest
from redis.exceptions import ResponseError

from tests.delay.claiming import TIMEOUT, Claiming
from tests.delay.partition import Partition
from tests.queue.scripts.space import FUTURE, NOW, PAST, SECOND


def keys_of(count: int) -> list[bytes]:
    return [b"m%04d" % n for n in range(count)]


def filled(partition: Partition, count: int, size: int = 4) -> Claiming:
    """Return the claims on a queue whose messages became ready in the opposite order of their
    keys, and two that are not ready."""
    for n, key in enumerate(reversed(keys_of(count))):
        partition.store(key.decode(), b"x" * size, 10.0 + n)
    partition.store("later", ready=NOW / SECOND + 1e-6)
    partition.lease("held", deadline=FUTURE)
    return Claiming(partition)


def claimed(partition: Partition, count: int, size: int = 4) -> Claiming:
    """Return a claim of all messages that are ready."""
    claiming = filled(partition, count, size)
    claiming.claim()
    return claiming


def own(claiming: Claiming, *, others: tuple[bytes, ...] = (b"later", b"held")) -> list[bytes]:
    """Return the keys of claimed messages by the ends of their leases."""
    leases = claiming.leases()
    return [key for key in sorted(leases, key=leases.__getitem__) if key not in others]


def lose(claiming: Claiming) -> set[bytes]:
    """Let four of the messages leave the claim, in ways that an ended lease or a client allows."""
    partition, client = claiming.partition, claiming.client
    # Another consumer has it since its lease ended.
    client.zadd(partition.key("z"), {"m0001": NOW / SECOND + 9000})
    client.zadd(partition.key("leases"), {"m0001": NOW + 9000 * SECOND})
    # The article's client pushed it again, perhaps after deleting it.
    client.zadd(partition.key("z"), {"m0002": 20.0})
    # It was canceled and pushed again.
    client.zrem(partition.key("leases"), "m0003")
    client.zadd(partition.key("z"), {"m0003": 30.0})
    # Both at once: its ready time is that of the claim's lease by chance.
    client.zadd(partition.key("leases"), {"m0004": NOW + 9000 * SECOND})
    return {b"m0001", b"m0002", b"m0003", b"m0004"}


def test_ready_messages_are_leased_where_they_are_in_their_order(partition: Partition) -> None:
    claiming = filled(partition, 4)
    assert claiming.claim() == [b"ok", 4, 0]
    assert own(claiming) == keys_of(4)[::-1]
    leases = claiming.leases()
    ends = [leases[key] for key in own(claiming)]
    assert ends == [NOW + TIMEOUT + at for at in range(4)]
    assert claiming.ready() == {
        **{key: leases[key] for key in keys_of(4)},
        b"held": FUTURE,
        b"later": NOW + 1,
    }
    assert claiming.read() == dict(enumerate(keys_of(4)[::-1]))
    assert claiming.client.lindex(claiming.list, 0) == b"10:m0003"
    week = 7 * 86_400_000
    assert week < claiming.client.pttl(claiming.list) <= week + TIMEOUT // 1000
    assert claiming.claim(batch=2) == [b"taken", 2]  # its list is there
    claiming.client.delete(claiming.list)
    assert claiming.claim(batch=2) == [b"empty"]


@pytest.mark.parametrize("begun", [False, True])
def test_a_late_copy_of_a_claim_that_found_nothing_takes_nothing(
    partition: Partition, begun: bool
) -> None:
    claiming = Claiming(partition)
    if begun:
        claiming.client.hset(claiming.group, mapping={"claiming": 1, "last": 1})
    assert claiming.claim() == [b"empty"]
    partition.store("a")
    assert claiming.claim() == [b"empty"]
    assert claiming.claim(batch=2) == [b"ok", 1, 0]


def test_a_claim_has_no_more_messages_than_are_wanted(partition: Partition) -> None:
    claiming = filled(partition, 5)
    assert claiming.claim(3) == [b"ok", 3, 0]
    assert own(claiming) == keys_of(5)[:1:-1]


def test_a_claim_ends_with_the_message_that_fills_its_size(partition: Partition) -> None:
    claiming = filled(partition, 6, 100)
    assert claiming.claim(size=201, change=("CHUNK = 300", "CHUNK = 2")) == [b"ok", 2, 1]
    assert claiming.claim(size=201, change=("CHUNK = 300", "CHUNK = 2")) == [b"ok", 3, 0]
    assert len(own(claiming)) == 3


def test_a_claim_is_made_in_steps_that_may_be_resent(partition: Partition) -> None:
    claiming = filled(partition, 5)
    change = ("CHUNK = 300", "CHUNK = 2")
    for reply in ([b"ok", 2, 1], [b"ok", 4, 1], [b"ok", 5, 0]):
        assert claiming.claim(change=change) == reply
        claiming.now = NOW - 1
    partition.store("new")
    assert claiming.claim(change=change) == [b"ok", 5, 0]
    assert claiming.read() == dict(enumerate(keys_of(5)[::-1]))
    assert b"new" not in claiming.leases()


def test_a_batch_is_used_once(partition: Partition) -> None:
    claiming = filled(partition, 2)
    claiming.claim(1, batch=7)
    while claiming.ack(batch=7)[2]:
        pass
    assert claiming.claim(batch=7) == [b"taken", 7]
    assert claiming.claim(batch=6) == [b"taken", 7]
    claiming.client.hset(claiming.group, "acked", 9)
    assert claiming.claim(batch=9) == [b"taken", 9]
    claiming.client.hset(claiming.group, "last", 10)
    assert claiming.claim(batch=10) == [b"taken", 10]
    claiming.client.rpush(claiming.list, "of somebody else")
    assert claiming.claim(batch=11) == [b"taken", 11]
    assert own(claiming) == []


def test_a_claim_that_took_too_long_is_closed(partition: Partition) -> None:
    claiming = filled(partition, 4)
    change = ("CHUNK = 300", "CHUNK = 2")
    claiming.claim(change=change)
    claiming.now = NOW + TIMEOUT * 51 // 100
    assert claiming.claim(change=change) == [b"ok", 2, 0]
    assert claiming.claim(batch=2, change=change) == [b"taken", 2]
    assert len(own(claiming)) == 2


def test_running_leases_are_respected(partition: Partition) -> None:
    claiming = filled(partition, 1)
    # A client that knows no leases made it ready.
    partition.client.zadd(partition.key("z"), {"held": 1.0})
    assert claiming.claim() == [b"ok", 1, 0]
    assert own(claiming) == keys_of(1)
    assert claiming.leases()[b"held"] == FUTURE
    assert claiming.ready()[b"held"] == FUTURE + 1


def test_counts_go_on(partition: Partition) -> None:
    claiming = filled(partition, 1)
    partition.lease("ended", deadline=PAST)
    partition.lease("often", deadline=PAST, count=4)
    partition.store("nacked")
    receives = partition.key("receives")
    partition.client.hset(receives, "nacked", 2)
    partition.client.hset(partition.key("extended"), "ended", "5:1000000")
    partition.watch()
    claiming.claim()
    counts = {b"ended": b"2", b"often": b"5", b"nacked": b"3"}
    assert partition.client.hgetall(receives) == counts
    assert not partition.client.exists(partition.key("extended"))
    assert partition.shown() == {"pushed": 0, "taken": 4, "returned": 2}
    while claiming.give_back()[1]:
        pass
    counts = {b"ended": b"1", b"often": b"4", b"nacked": b"2"}
    assert partition.client.hgetall(receives) == counts
    assert partition.shown() == {"pushed": 0, "taken": 4, "returned": 2, "released": 4}


def test_a_message_without_a_body_becomes_a_dead_letter(partition: Partition) -> None:
    claiming = filled(partition, 1)
    for n in range(3):
        partition.store(f"lost{n}")
        partition.client.hdel(partition.key("h"), f"lost{n}")
        partition.client.hset(partition.key("receives"), f"lost{n}", 1)
    partition.store("empty", b"", 11.0)
    change = ("DEAD_LETTER_BUDGET = 100", "DEAD_LETTER_BUDGET = 2")
    assert claiming.claim(change=change) == [b"ok", 0, 1]
    assert claiming.claim(change=change) == [b"ok", 2, 0]
    dead = partition.client.xrange(partition.key("dead"))
    assert [fields[b"key"] for _, fields in dead] == [b"lost0", b"lost1", b"lost2"]
    assert {fields[b"reason"] for _, fields in dead} == {b"body missing"}
    assert claiming.ready().keys() == {*keys_of(1), b"empty", b"later", b"held"}
    assert not partition.client.exists(partition.key("receives"))


@pytest.mark.parametrize("place", [0, 1])
def test_no_lease_equals_a_receipt_that_is_recorded(partition: Partition, place: int) -> None:
    claiming = filled(partition, 2)
    key, extended = keys_of(2)[1 - place], partition.key("extended")
    partition.client.hset(extended, key, f"{NOW + TIMEOUT + place}:{PAST}")
    # An empty claim is tried again, and another one ends before this message.
    assert claiming.claim() == [b"ok", place, 1 - place]
    assert own(claiming) == keys_of(2)[::-1][:place]
    assert partition.client.hexists(extended, key)
    claiming.now = NOW + 5
    if place == 0:
        assert claiming.claim(2) == [b"ok", 2, 0]
        assert not partition.client.exists(extended)


def test_long_leases_are_not_renewed(partition: Partition) -> None:
    claiming = claimed(partition, 2)
    before = claiming.everything()
    claiming.now = NOW + TIMEOUT // 3
    assert claiming.beat() == [b"ok", 0, 0]
    assert claiming.everything() == before


def renewed_in_part(partition: Partition) -> Claiming:
    """Return a claim of five messages, two of whose leases were renewed."""
    claiming = claimed(partition, 5)
    claiming.now = NOW + TIMEOUT // 2
    assert claiming.beat(2) == [b"ok", 2, 1]
    return claiming


def test_leases_are_renewed_in_steps(partition: Partition) -> None:
    claiming = renewed_in_part(partition)
    ends = [claiming.now + TIMEOUT + at for at in range(5)]  # type: ignore[operator]
    assert claiming.read() == dict(enumerate(keys_of(5)[::-1]))
    claiming.now += 7  # type: ignore[operator]
    claiming.client.pexpire(claiming.list, 600_000)
    assert [claiming.beat(2), claiming.beat(2)] == [[b"ok", 2, 1], [b"ok", 1, 0]]
    assert [claiming.leases()[key] for key in keys_of(5)[::-1]] == ends
    assert [claiming.ready()[key] for key in keys_of(5)[::-1]] == ends
    assert claiming.client.zscore(partition.key("claims"), claiming.list) == ends[0]
    assert claiming.beat(2) == [b"ok", 0, 0]
    # The list lives as long as before, counted from now.
    assert claiming.client.pttl(claiming.list) > 7 * 86_400_000 + TIMEOUT // 1000 - 60_000
    claiming.now += TIMEOUT // 2
    assert claiming.beat() == [b"ok", 5, 0]
    assert claiming.read() == dict(enumerate(keys_of(5)[::-1]))


def test_a_claim_renewed_in_part_is_acked(partition: Partition) -> None:
    claiming = renewed_in_part(partition)
    assert [claiming.ack(2) for _ in range(4)] == [
        [b"ok", 2, 3],
        [b"ok", 2, 1],
        [b"ok", 1, 0],
        [b"ok", 0, 0],
    ]
    assert claiming.ready().keys() == {b"later", b"held"}


def test_a_claim_renewed_in_part_is_returned(partition: Partition) -> None:
    claiming = renewed_in_part(partition)
    assert [claiming.give_back(2) for _ in range(4)] == [[2, 3], [2, 1], [1, 0], [0, 0]]
    ready = claiming.ready()
    times = [(10 + n) * SECOND for n in range(5)]
    assert [ready[key] for key in keys_of(5)[::-1]] == times
    assert claiming.leases().keys() == {b"held"}


@pytest.mark.parametrize(("later", "rows"), [(0, 6), (TIMEOUT // 2 + 3, 3)])
def test_a_claim_is_complete_once_half_of_its_leases_is_over(
    partition: Partition, later: int, rows: int
) -> None:
    claiming = filled(partition, 6)
    assert claiming.claim(change=("CHUNK = 300", "CHUNK = 3")) == [b"ok", 3, 1]
    assert claiming.client.hget(claiming.group, "claiming") == b"1"
    claiming.now = NOW + later
    assert claiming.claim() == [b"ok", rows, 0]
    assert not claiming.client.hexists(claiming.group, "claiming")


def test_an_empty_take_returns_when_the_next_message_is_ready(partition: Partition) -> None:
    def wait() -> int:
        status, wait = partition.call("delay/take", "", 0, 1, SECOND, 0, 0)
        assert status == b"empty"
        return int(wait)

    assert wait() == -1
    now = partition.client.time()[0]
    for key, ready in (("later", now + 200), ("next", now + 100)):
        partition.store(key, ready=ready)
    assert 90 * SECOND < wait() <= 100 * SECOND


def test_a_claim_that_grows_while_it_is_renewed(partition: Partition) -> None:
    claiming = filled(partition, 6)
    change = ("CHUNK = 300", "CHUNK = 3")
    claiming.claim(change=change)
    claiming.now = NOW + TIMEOUT * 2 // 5
    assert claiming.beat(2) == [b"ok", 2, 1]
    assert claiming.claim(change=change) == [b"ok", 6, 1]
    assert claiming.read() == dict(enumerate(keys_of(6)[::-1]))
    assert [claiming.beat(2), claiming.beat(2)] == [[b"ok", 2, 1], [b"ok", 2, 0]]
    assert claiming.read() == dict(enumerate(keys_of(6)[::-1]))


def test_an_ended_lease_that_nobody_took_is_renewed(partition: Partition) -> None:
    claiming = claimed(partition, 2)
    claiming.now = NOW + 2 * TIMEOUT
    assert claiming.beat() == [b"ok", 2, 0]
    assert len(own(claiming)) == 2


def test_messages_that_left_are_not_read(partition: Partition) -> None:
    claiming = claimed(partition, 5)
    lost = lose(claiming)
    found = claiming.read()
    assert found == {at: key for at, key in enumerate(keys_of(5)[::-1]) if key not in lost}


def test_messages_that_left_are_not_renewed_and_do_not_come_back(partition: Partition) -> None:
    claiming = claimed(partition, 5)
    lost = lose(claiming)
    before = claiming.ready(), claiming.leases()
    claiming.now = NOW + TIMEOUT // 2
    assert claiming.beat() == [b"ok", 1, 0]
    for now, then in zip((claiming.ready(), claiming.leases()), before, strict=True):
        assert {key: now[key] for key in lost & now.keys()} == {
            key: then[key] for key in lost & then.keys()
        }
    # The other consumer's lease ends when the claim's would, by chance.
    deadline = claiming.now + TIMEOUT + 3
    partition.client.zadd(partition.key("z"), {"m0001": deadline / SECOND})
    partition.client.zadd(partition.key("leases"), {"m0001": deadline})
    assert b"m0001" not in claiming.read().values()


def test_messages_that_left_are_not_deleted(partition: Partition) -> None:
    claiming = claimed(partition, 5)
    lost = lose(claiming)
    assert claiming.ack() == [b"ok", 1, 0]
    stored = lost | {b"later", b"held"}
    assert claiming.ready().keys() == stored
    assert set(partition.client.hkeys(partition.key("h"))) == stored


def test_messages_that_left_are_not_returned(partition: Partition) -> None:
    claiming = claimed(partition, 5)
    lost = lose(claiming)
    before = claiming.ready()
    assert claiming.give_back() == [1, 0]
    assert {key: claiming.ready()[key] for key in lost} == {key: before[key] for key in lost}
    assert b"m0001" in claiming.leases()


def test_an_ack_deletes_all_that_belongs_to_the_messages(partition: Partition) -> None:
    claiming = claimed(partition, 3)
    before = claiming.everything().keys()
    for part in ("receives", "extended"):
        partition.client.hset(partition.key(part), mapping={"m0001": 3, "held": 3})
    partition.note("m0001", b"x", b"1:1:")
    partition.note("held", b"x", b"1:1:")
    partition.watch()
    assert claiming.ack() == [b"ok", 3, 0]
    assert partition.shown().get("acked") == 3
    for part in ("z", "h", "leases", "receives", "extended", "errors"):
        found = partition.client.scan_iter(partition.key(part))
        assert list(found)
        keys = (
            partition.client.zrange(partition.key(part), 0, -1)
            if part in ("z", "leases")
            else partition.client.hkeys(partition.key(part))
        )
        assert set(keys) <= {b"held", b"later"}, part
    assert claiming.list.encode() in before
    assert not partition.client.exists(claiming.list, partition.key("claims"))
    assert partition.client.hgetall(claiming.group) == {
        b"epoch": b"1",
        b"last": b"1",
        b"bytes": b"12",
        b"acked": b"1",
    }


def test_one_call_deletes_a_bounded_number_of_bytes(partition: Partition) -> None:
    claiming = claimed(partition, 5, 3 * 1024 * 1024)
    assert [claiming.ack(), claiming.ack()] == [[b"ok", 3, 2], [b"ok", 2, 0]]


def test_one_call_reads_a_bounded_number_of_bytes(partition: Partition) -> None:
    claiming = claimed(partition, 5, 600 * 1024)
    looked, *values = claiming.call("claim_read", 1, 1, 300)
    assert (looked, values[::4]) == (2, [1, 2])
    assert claiming.call("claim_read", 1, 5, 300) == [0]


def test_a_returned_message_is_ready_since_its_former_time(partition: Partition) -> None:
    claiming = claimed(partition, 3)
    partition.note("m0001", b"x", b"1:1:")
    partition.client.hset(partition.key("receives"), "m0000", 4)
    partition.note("m0000", b"xxxx", b"3:1:")
    assert claiming.give_back() == [3, 0]
    assert claiming.ready() == {
        b"m0002": 10 * SECOND,
        b"m0001": 11 * SECOND,
        b"m0000": 12 * SECOND,
        b"later": NOW + 1,
        b"held": FUTURE,
    }
    assert partition.client.hgetall(partition.key("receives")) == {b"m0000": b"3"}
    assert partition.client.hkeys(partition.key("errors")) == [b"m0000"]
    assert partition.client.lrange(partition.key("wake"), 0, -1) == [b"1"]
    assert not partition.client.exists(claiming.list, partition.key("claims"))
    assert claiming.leases().keys() == {b"held"}
    receipt, keys = partition.take()
    assert keys == [*keys_of(3)[::-1], b"later"]
    assert partition.delete(receipt, *keys) == [4]


def test_only_a_released_claim_is_returned(partition: Partition) -> None:
    claiming = claimed(partition, 3)
    before = claiming.everything()
    assert claiming.call("claim_return", 1) == [0, 0]
    assert claiming.everything() == before


def test_a_claim_that_is_being_returned_is_neither_acked_nor_renewed_nor_read(
    partition: Partition,
) -> None:
    claiming = claimed(partition, 3)
    claiming.give_back(1)
    leases = claiming.leases()
    claiming.now = NOW + TIMEOUT // 2
    assert claiming.ack() == [b"ok", 0, 0]
    assert claiming.beat() == [b"ok", 0, 0]
    assert claiming.read() == {}
    assert claiming.leases() == leases
    assert claiming.give_back() == [2, 0]


def test_a_claim_whose_list_is_gone_is_forgotten(partition: Partition) -> None:
    claiming = claimed(partition, 2)
    claiming.client.delete(claiming.list)
    before, claiming.now = claiming.everything(), NOW + TIMEOUT // 2
    assert claiming.beat() == [b"ok", 0, 0]
    assert claiming.everything() == before
    assert claiming.read() == {}
    assert claiming.ack() == [b"ok", 0, 0]
    assert not claiming.client.exists(partition.key("claims"))
    assert not claiming.client.hexists(claiming.group, "lease:1")
    assert len(own(claiming)) == 2  # until their leases end


CALLS = {
    "claim": (1, 2, 10, 0, TIMEOUT, 0),
    "claim_beat": (1, 1, TIMEOUT),
    "claim_ack": (1, 1, 1),
}


@pytest.mark.parametrize("script", CALLS)
def test_a_replaced_driver_changes_nothing(partition: Partition, script: str) -> None:
    claiming = filled(partition, 3)
    claiming.claim(2)
    claiming.client.hset(claiming.group, "epoch", 2)
    claiming.now = NOW + TIMEOUT // 2
    before = claiming.everything()
    assert claiming.call(script, *CALLS[script]) == [b"fenced", 2]
    assert claiming.everything() == before


@pytest.mark.parametrize("script", ["claim", "claim_beat", "claim_ack", "claim_return"])
def test_a_key_of_another_type_changes_nothing(partition: Partition, script: str) -> None:
    claiming = filled(partition, 3)
    claiming.claim(2)
    claiming.now = NOW + TIMEOUT // 2
    client, key = claiming.client, partition.key
    if script == "claim_return":
        client.zadd(key("claims"), {claiming.list: 0})
    used = {
        "claim": ("z", "h", "leases", "extended", "receives", "dead", "errors", "claims"),
        "claim_beat": ("z", "leases", "claims"),
        "claim_ack": ("z", "h", "leases", "extended", "receives", "errors", "claims"),
        "claim_return": ("z", "h", "leases", "extended", "receives", "wake", "errors", "claims"),
    }[script]
    saved = claiming.everything()
    client.delete(claiming.list) if script == "claim" else None
    for part in used:
        client.delete(key(part))
        client.set(key(part), "another type")
        before = claiming.everything()
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            claiming.call(script, *{**CALLS, "claim_return": (1,)}[script])
        assert claiming.everything() == before, part
        client.delete(key(part))
        if key(part).encode() in saved:
            client.restore(key(part), 0, saved[key(part).encode()])
