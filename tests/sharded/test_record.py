"""The names of a queue's shards, and the record of how many there are."""

import itertools
from typing import Any

import pytest
import redis
from redis.crc import key_slot
from redis.exceptions import ResponseError

import ackq
from ackq import Groups, QueueConfig
from ackq.membership.shards import GROUPED, NEWEST, shard_names
from ackq.queue.record import fields_of
from ackq.sharded import ShardedQueue
from tests.servers import Target
from tests.sharded.conftest import MakeSharded
from tests.sharded.scripted import Scripted

#: As in lua/README.md.
VECTORS = {
    ("jobs", 3): ["{jobs:0.0}", "{jobs:1.0}", "{jobs:2.0}"],
    ("jobs", 4): ["{jobs:0.1}", "{jobs:1.3}", "{jobs:2.1}", "{jobs:3.3}"],
    ("ключ", 2): ["{ключ:0.2}", "{ключ:1.2}"],
}


def names(queue: Any) -> list[str]:
    return [shard.name for shard in queue.shards()]


def test_the_names_are_the_same_in_every_language() -> None:
    for (name, shards), expected in VECTORS.items():
        assert list(shard_names(name, shards)) == expected
    assert shard_names("jobs", 3, GROUPED) == ("{jobs:0.1027}", "{jobs:1.3}", "{jobs:2.3075}")
    assert shard_names("ключ", 2, GROUPED) == ("{ключ:0.2}", "{ключ:1.2}")
    for format, shards in itertools.product((NEWEST, GROUPED), (1, 5, 100)):
        slots = [key_slot(each.encode()) for each in shard_names("orders", shards, format)]
        assert [slot * shards // 16384 for slot in slots] == list(range(shards))


def test_with_groups_no_two_numbers_of_shards_have_a_name_in_common() -> None:
    found = [name for number in range(1, 40) for name in shard_names("jobs", number, GROUPED)]
    assert len(set(found)) == len(found)


def test_the_first_client_records_the_number_and_others_may_leave_it_out(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    with pytest.raises(ackq.ConfigurationError, match=f"ackq sharded create {token}"):
        make_sharded(None).push({"id": "a"})
    assert not target.control.exists(f"{{{token}}}:shards")
    first = make_sharded(3)
    assert names(first) == list(shard_names(token, 3))
    other = make_sharded(None)
    other.push({"id": "a"})
    assert first.pop().id == "a"
    with pytest.raises(ackq.ConfigurationError, match="has 3 shards, not 4"):
        make_sharded(4).pop()
    record: Any = target.control.hgetall(f"{{{token}}}:shards")
    assert record == {b"format": b"2", b"shards": b"3", b"draining": b"", b"version": b"1"}


@pytest.mark.parametrize("key", ["", "DEAD", "CONTEXT"])
def test_shards_of_the_first_format_keep_their_names(
    make_sharded: MakeSharded, target: Target, token: str, key: str
) -> None:
    first = f"{{{token}:1}}"
    with ackq.Queue(target.make_client(), first) as shard:
        shard.push({"id": "a"})
        if key == "DEAD":
            shard.reject(shard.pop())  # type: ignore[arg-type]
        elif key == "CONTEXT":
            shard.pop()
    queue = make_sharded(2)
    assert names(queue) == [f"{{{token}:0}}", first]
    assert not target.control.exists(f"{{{token}}}:shards")
    queue.join()  # which the former release sees, and this one without a number
    assert names(make_sharded(None)) == names(queue)
    with pytest.raises(ackq.ConfigurationError, match="has 2 partitions, not 3"):
        make_sharded(3).join()


# --- the script -------------------------------------------------------------------------


def test_open_creates_once_and_reads(scripted: Scripted) -> None:
    assert scripted.call("open", 0) == [0]
    assert not scripted.client.keys(f"{{{scripted.name}}}*")
    assert scripted.call("open", 12) == [2, 12, 1, b""]
    assert scripted.call("open", 0) == scripted.call("open", 7) == [2, 12, 1, b""]


def test_open_records_the_groups_of_a_new_queue(scripted: Scripted) -> None:
    for settings in (("format",), ("kind", "groups"), ("format", "2") * 11):
        with pytest.raises(ResponseError, match="ACKQ_ARGUMENT sharded/open"):
            scripted.call("open", 12, *settings)
    groups, other = (
        [part for pair in fields_of(QueueConfig(groups=Groups(field))).items() for part in pair]
        for field in ("customer", "other")
    )
    assert scripted.call("open", 0, *groups) == [0]
    assert not scripted.client.exists(scripted.record)
    recorded = [2, 12, 1, b"", b"groups", b"1", b"0/0/0", b"continue", b"0", b"customer", None]
    assert scripted.call("open", 12, *groups) == recorded
    assert scripted.call("open", 12) == scripted.call("open", 0, *other) == recorded


def test_open_leaves_a_queue_of_the_first_format_as_it_is(scripted: Scripted) -> None:
    scripted.client.hset(f"{{{scripted.name}}}:group", "shares", "5")
    assert scripted.call("open", 12) == scripted.call("open", 0) == [1, 5]
    assert not scripted.client.exists(scripted.record)


def test_open_refuses_a_number_out_of_range(scripted: Scripted) -> None:
    for shards in (-1, 1025, 1.5, "x", ""):
        with pytest.raises(ResponseError, match="ACKQ_ARGUMENT sharded/open"):
            scripted.call("open", shards)
    assert scripted.call("open", 0) == [0]


def test_a_record_of_a_later_release_is_refused(plain_client: redis.Redis, token: str) -> None:
    plain_client.hset(
        f"{{{token}}}:shards", mapping={"format": 4, "shards": 2, "version": 1, "draining": ""}
    )
    with (
        ShardedQueue(plain_client, token) as queue,
        pytest.raises(ackq.ConfigurationError, match="upgrade ackq"),
    ):
        queue.push({"id": "a"})
