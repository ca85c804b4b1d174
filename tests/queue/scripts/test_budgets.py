"""The scripts beside the list queue's: how much one call reads and moves, whatever is stored."""

from typing import Any

import pytest
from redis.exceptions import ResponseError

from tests.queue.scripts import meter
from tests.queue.scripts.headers import read
from tests.queue.scripts.meter import Metered
from tests.queue.scripts.space import FUTURE, MIB, SECOND, Space, mark

#: A body of which the third passes the mebibyte of one call.
LONG = b"x" * (3 * MIB // 8)
#: What three of them, and the little that is read beside them, stay below.
THREE = 3 * len(LONG) + 10_000
GROUP = [":members", ":group"]
PARTITION = [
    ":z",
    ":h",
    ":leases",
    ":extended",
    ":receives",
    ":dead",
    ":wake",
    ":errors",
    ":counters",
]
TOPIC = [":nextIndex", ":firstIndex", ":consumers:c", ":leases:c", ":ranges:c"]
RSMQ = [":q", ":q:Q", ":q:Q.wake", ":q:Q.waiters", ":q:Q.dead", ":q:Q.errors"]


def weigh(space: Space, script: str, suffixes: list[str], *args: Any) -> Metered:
    """Call a script on keys of the test, and weigh what it reads."""
    keys = [space.key(suffix) for suffix in suffixes]
    return meter.call(space.client, read(space.directory, script), keys, *args)


def store(space: Space, count: int, body: bytes = LONG, leased: bool = True) -> list[str]:
    """Store messages of a delay queue, taken or ready, and return their keys."""
    keys = [f"{number:04}" for number in range(count)]
    lease = FUTURE // 1000
    space.client.zadd(space.key(":z"), dict.fromkeys(keys, lease / SECOND if leased else 1))
    space.client.hset(space.key(":h"), mapping=dict.fromkeys(keys, body))
    if leased:
        space.client.zadd(space.key(":leases"), dict.fromkeys(keys, lease))
    return keys


def settle(space: Space, way: str, max_receives: int, keys: list[str]) -> Metered:
    """Nack or reject messages that `store` has taken."""
    group = [1, FUTURE // 1000, 0, len(keys), *keys]
    return weigh(space, "delay/nack", GROUP + PARTITION, "", way, max_receives, "bad", *group)


def die(space: Space, suffix: str, count: int, **fields: Any) -> None:
    """Write dead letters with long bodies."""
    for number in range(count):
        space.client.xadd(
            space.key(suffix), {"body": LONG, **fields, "id": f"{number:032}", "key": str(number)}
        )


def test_a_nack_of_a_delay_queue_reads_no_body(space: Space) -> None:
    keys = store(space, 5)
    assert settle(space, "nack", 0, keys).reply == [5]
    store(space, 5)
    assert settle(space, "nack", 0, keys).total < 1000


def test_a_nack_of_a_delay_queue_buries_a_mebibyte(space: Space) -> None:
    keys = store(space, 5)
    nacked = settle(space, "nack", 1, [keys[0], "gone", *keys[1:]])
    assert nacked.reply[0] == 3
    assert nacked.reply[-3:] == [0, 5, [1, 3, 4]]
    assert nacked.total < THREE
    assert settle(space, "nack", 1, keys).reply[0] == 2
    assert space.client.xlen(space.key(":dead")) == 5


def test_a_reject_of_a_delay_queue_moves_a_mebibyte(space: Space) -> None:
    keys = store(space, 5)
    space.client.zrem(space.key(":leases"), keys[4])
    rejected = settle(space, "reject", 0, keys)
    assert rejected.reply == [3, 0, 4]
    assert rejected.total < THREE
    assert settle(space, "reject", 0, keys[3:]).reply == [1, 2]
    assert space.client.xlen(space.key(":dead")) == 4


def failed(space: Space, leased: bool = True) -> list[str]:
    """Store messages with notes of 50 kB, of themselves or of others with their keys."""
    keys = store(space, 10, b"x", leased)
    for number, key in enumerate(keys):
        of = mark(b"x" if number % 2 else b"y")
        space.client.hset(space.key(":errors"), key, of + b"\n1:7:" + b"x" * 50_000)
        space.client.hset(space.key(":receives"), key, 2)
    return keys


def test_a_delay_queue_settles_the_messages_of_a_quarter_of_a_mebibyte_of_notes(
    space: Space,
) -> None:
    keys = failed(space)
    assert settle(space, "nack", 2, keys).reply == [6, 0, 7, [1, 2, 3, 4, 5, 6]]
    keys = failed(space)
    group = [1, FUTURE // 1000, 0, 10, *keys, "errors", 10, "{}"]
    assert weigh(space, "delay/nack", GROUP + PARTITION, "", "nack", 0, "", *group).reply == [
        5,
        0,
        6,
    ]
    keys = failed(space)
    assert settle(space, "reject", 0, keys).reply == [6, 0, 7]


def test_a_take_from_a_delay_queue_buries_the_messages_of_a_quarter_of_a_mebibyte_of_notes(
    space: Space,
) -> None:
    failed(space, leased=False)
    keys = GROUP + PARTITION
    assert weigh(space, "delay/take", keys, "", 0, 10, SECOND, 0, 2).reply == [b"again"]
    assert space.client.xlen(space.key(":dead")) == 6


def test_a_delay_queue_redrives_a_mebibyte_of_errors(space: Space) -> None:
    errors = b"1:7:" + LONG
    for key in "abcde":
        space.client.xadd(space.key(":dead"), {"key": key, "body": "x", "errors": errors})
    assert weigh(space, "delay/redrive", PARTITION, 5, "").reply[:2] == [3, 3]


def test_one_call_gives_a_hundred_back_to_a_delay_queue(space: Space) -> None:
    keys = store(space, 101, b"x")
    assert settle(space, "nack", 0, keys).reply == [100, 0, 101]
    assert space.client.zcard(space.key(":leases")) == 1


def test_one_call_rejects_a_hundred_of_a_delay_queue(space: Space) -> None:
    keys = store(space, 101, b"x")
    assert settle(space, "reject", 0, keys).reply == [100, 0, 101]
    assert space.client.zcard(space.key(":leases")) == 1


def test_a_take_forgets_so_many_leases_whatever_the_partitions(space: Space) -> None:
    partitions = [f":{number}" for number in range(40)]
    lost = [space.key(f"{partition}:leases") for partition in partitions]
    for leases in lost:
        space.client.zadd(leases, {str(number): 1 for number in range(16)})
    keys = GROUP + [partition + each for partition in partitions for each in PARTITION]

    def left() -> int:
        weigh(space, "delay/take", keys, "", 0, 1, SECOND, 0, 0)
        return sum(space.client.zcard(leases) for leases in lost)

    assert left() == 40 * 16 - 256
    # Each call begins anywhere: until it meets those that are left, it finds others empty.
    assert left() == 40 * 16 - 512
    assert left() == 0


def test_a_take_from_a_delay_queue_reads_one_by_one(space: Space) -> None:
    store(space, 20, leased=False)
    taken = weigh(space, "delay/take", GROUP + PARTITION, "", 0, 20, SECOND, 0, 0)
    assert len(taken.reply) == 2 + 3 * 5
    assert taken.total < THREE


def test_a_look_at_a_delay_queue_reads_one_by_one(space: Space) -> None:
    store(space, 20, leased=False)
    assert weigh(space, "delay/peek", PARTITION, "ready", "", "", 20).total < THREE


def test_a_delay_queue_redrives_a_mebibyte(space: Space) -> None:
    die(space, ":dead", 5)
    redriven = weigh(space, "delay/redrive", PARTITION, 5, "")
    assert redriven.reply[:2] == [3, 3]
    assert redriven.total < THREE


def test_a_topic_is_read_one_by_one(space: Space) -> None:
    space.client.mset({space.key(":nextIndex"): 20, space.key(":consumers:c"): 0})
    messages = [f":messages:{index}" for index in range(1, 21)]
    space.client.mset({space.key(message): LONG for message in messages})
    args = (0, 20, SECOND, "0123456789abcdef", 0)
    consumed = weigh(space, "topic/consume", TOPIC + messages, *args)
    assert consumed.reply[3:5] == [1, 3]
    assert consumed.total < THREE


def test_rsmq_receives_one_by_one(space: Space) -> None:
    ids = [f"{number:032}" for number in range(20)]
    attributes = {"vt": 30, "delay": 0, "maxsize": -1}
    space.client.hset(space.key(":q:Q"), mapping={**attributes, **dict.fromkeys(ids, LONG)})
    space.client.zadd(space.key(":q"), dict.fromkeys(ids, 1))
    received = weigh(space, "rsmq/receive", RSMQ, "hide", 20, "", 0, 0)
    assert len(received.reply) == 1 + 3 * 4
    assert received.total < THREE


def test_rsmq_sets_strange_ids_aside_unread(space: Space) -> None:
    space.client.hset(space.key(":q:Q"), mapping={"vt": 30, "delay": 0, "maxsize": -1})
    for number in range(5):
        space.client.zadd(space.key(":q"), {f"strange {number}": 1})
        space.client.hset(space.key(":q:Q"), f"strange {number}", LONG)
    received = weigh(space, "rsmq/receive", RSMQ, "hide", 20, "", 0, 0)
    assert received.reply == [b"again"]
    assert received.total < 10_000
    assert weigh(space, "rsmq/receive", RSMQ, "hide", 20, "", 0, 0).reply[0] == b"empty"


def test_rsmq_buries_a_hundred(space: Space) -> None:
    ids = [f"{number:032}" for number in range(101)]
    attributes = {"vt": 30, "delay": 0, "maxsize": -1, **{f"{id}:rc": 1 for id in ids}}
    space.client.hset(space.key(":q:Q"), mapping={**attributes, **dict.fromkeys(ids, "x")})
    space.client.zadd(space.key(":q"), dict.fromkeys(ids, 1))
    assert weigh(space, "rsmq/receive", RSMQ, "hide", 200, "", 0, 1).reply == [b"again"]
    assert space.client.xlen(space.key(":q:Q.dead")) == 100


def test_rsmq_buries_the_messages_of_a_quarter_of_a_mebibyte_of_notes(space: Space) -> None:
    ids = [f"{number:032}" for number in range(10)]
    attributes = {"vt": 30, "delay": 0, "maxsize": -1, **{f"{id}:rc": 1 for id in ids}}
    space.client.hset(space.key(":q:Q"), mapping={**attributes, **dict.fromkeys(ids, "x")})
    space.client.zadd(space.key(":q"), dict.fromkeys(ids, 1))
    space.client.hset(space.key(":q:Q.errors"), mapping=dict.fromkeys(ids, b"1:7:" + b"x" * 50_000))
    assert weigh(space, "rsmq/receive", RSMQ, "hide", 10, "", 0, 1).reply == [b"again"]
    assert space.client.xlen(space.key(":q:Q.dead")) == 6


def test_the_notes_of_rsmq_keep_to_their_messages_and_to_five(space: Space) -> None:
    known, gone = "a" * 32, "b" * 32
    space.client.hset(
        space.key(":q:Q"),
        mapping={"vt": 30, "delay": 0, "maxsize": -1, known: "x", f"{known}:rc": 7},
    )
    space.client.zadd(space.key(":q"), {known: 1})
    notes = space.key(":q:Q.errors")
    lines = [b"%d:7:{}" % attempt for attempt in range(3, 8)]
    space.client.hset(notes, mapping={known: b"\n".join(lines), gone: b"1:7:{}"})
    visibility = [*RSMQ[:4], RSMQ[5]]
    weigh(space, "rsmq/visibility", visibility, known, 60, '{"n":1}')
    found: Any = space.client.hget(notes, known)
    assert found.split(b"\n")[:4] == lines[:4]
    assert found.endswith(b':{"n":1}')
    space.client.hset(space.key(":q:Q"), f"{known}:rc", 8)
    weigh(space, "rsmq/visibility", visibility, known, 60, "{}")
    found = space.client.hget(notes, known)
    assert [each[:2] for each in found.split(b"\n")] == [b"4:", b"5:", b"6:", b"7:", b"8:"]
    # Nothing is visible, so notes of messages that others deleted are removed.
    assert weigh(space, "rsmq/receive", RSMQ, "hide", 1, "", 0, 8).reply[0] == b"empty"
    assert space.client.hkeys(notes) == [known.encode()]
    space.client.zadd(space.key(":q"), {known: 1})
    assert weigh(space, "rsmq/receive", RSMQ, "hide", 1, "", 0, 8).reply == [b"again"]
    [(_, letter)] = space.client.xrange(space.key(":q:Q.dead"))
    assert letter[b"errors"] == found
    assert not space.client.exists(notes)


def test_rsmq_redrives_a_mebibyte(space: Space) -> None:
    space.client.hset(space.key(":q:Q"), mapping={"vt": 30, "delay": 0, "maxsize": -1})
    die(space, ":q:Q.dead", 5)
    redriven = weigh(space, "rsmq/redrive", RSMQ, 16)
    assert redriven.reply == [3, 3]
    assert redriven.total < THREE
    assert weigh(space, "rsmq/redrive", RSMQ, 16).reply == [2, 2]


def test_chosen_dead_letters_of_other_queues_are_redriven_a_mebibyte_a_call(space: Space) -> None:
    space.client.hset(space.key(":q:Q"), mapping={"vt": 30, "delay": 0, "maxsize": -1})
    for script, keys, suffix, head in (
        ("rsmq/redrive", RSMQ, ":q:Q.dead", [5]),
        ("delay/redrive", PARTITION, ":dead", [5, ""]),
    ):
        die(space, suffix, 6)
        entries = [entry for entry, _ in space.client.xrange(space.key(suffix))]
        chosen = [entries[5], b"1-1", *entries[2:5]]
        redriven = weigh(space, script, keys, *head, *chosen)
        assert redriven.reply[:2] == [3, 4]
        assert redriven.total < THREE
        left = [entry for entry, _ in space.client.xrange(space.key(suffix))]
        assert left == [*entries[:2], entries[4]]
        text, names = read(space.directory, script), [space.key(key) for key in keys]
        for wrong in ([entries[0], "x"], ["1-1"] * 1001):
            with pytest.raises(ResponseError, match="ACKQ_ARGUMENT"):
                space.client.eval(text, len(names), *names, *head, *wrong)
        assert space.client.xlen(space.key(suffix)) == 3


def test_one_call_looks_at_a_hundred_chosen_dead_letters_of_a_delay_queue(space: Space) -> None:
    reply = weigh(space, "delay/redrive", PARTITION, 150, "", *[b"1-1"] * 150).reply
    assert reply == [0, 100, b""]


def test_a_stored_body_of_another_length_is_not_read_for_comparison(space: Space) -> None:
    stored = store(space, 5, leased=False)
    rows = [f"1:5:{len(key)}:{key}short" for key in stored]
    rows.append(f"1:5:{len(stored[0])}:{stored[0]}" + "x" * len(LONG))
    space.client.lpush(space.key(":list"), *rows)
    space.client.zadd(space.key(":held"), {space.key(":list"): 0})
    suffixes = [":held", ":heldrows", ":list", *PARTITION]
    weighed = weigh(space, "staging/delay", suffixes, 10)
    assert weighed.reply == [6, 0, 5]
    assert weighed.total < 2 * len(LONG) + 10_000


def test_one_call_cancels_eight_mebibytes(space: Space) -> None:
    keys = store(space, 5, b"x" * (3 * MIB), leased=False)
    pairs = [each for key in ["gone", *keys] for each in (1, key)]
    cancelled = weigh(space, "delay/cancel", PARTITION, 0, *pairs)
    assert (cancelled.reply, cancelled.total < 1000) == ([3, 4], True)
    assert set(space.client.hkeys(space.key(":h"))) == {b"0003", b"0004"}


def test_rsmq_deletes_eight_mebibytes(space: Space) -> None:
    ids = [f"{number:032}" for number in range(5)]
    space.client.hset(space.key(":q:Q"), mapping=dict.fromkeys(ids, b"x" * (3 * MIB)))
    space.client.zadd(space.key(":q"), dict.fromkeys(ids, 1))
    deleted = weigh(space, "rsmq/delete", [*RSMQ[:2], RSMQ[5]], "x" * 32, *ids)
    assert (deleted.reply, deleted.total < 1000) == ([3, 4], True)
    assert space.client.zcard(space.key(":q")) == 2


def test_a_topic_is_trimmed_by_eight_mebibytes(space: Space) -> None:
    messages = [f":messages:{index}" for index in range(1, 7)]
    space.client.mset({space.key(message): b"x" * (3 * MIB) for message in messages})
    space.client.delete(space.key(messages[0]))
    space.client.lpush(space.key(messages[0]), "somebody else's")
    space.client.set(space.key(":nextIndex"), 6)
    assert weigh(space, "topic/trim", TOPIC[:2] + messages, 0, 1).reply == [6, 5, 4]
    assert weigh(space, "topic/trim", TOPIC[:2] + messages[4:], 0, 5).reply == [6, 7, 2]


def test_a_publish_trims_eight_mebibytes(space: Space) -> None:
    messages = [f":messages:{index}" for index in range(1, 8)]
    space.client.mset({space.key(message): b"x" * (3 * MIB) for message in messages[:6]})
    space.client.set(space.key(":nextIndex"), 6)
    keys = [":nextIndex", ":firstIndex", ":wake", ":dedup:", *messages[:6], messages[6]]
    args = (6, 0, 1, 6, 1, 0, "body")
    assert weigh(space, "topic/publish", keys, *args).reply == [b"ok", 7, 4]
    assert space.client.exists(*(space.key(message) for message in messages)) == 4
