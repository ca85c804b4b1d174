"""The scripts alone: they refuse bad calls before they change anything, also on a full server."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.exceptions import OutOfMemoryError, ResponseError

from ackq import Queue, scripts
from ackq.delay.staging_client import DelayStaging
from ackq.embedded import Server
from ackq.queue.staging_client import Staging
from ackq.staging.keys import Staged
from ackq.topic.staging_client import TopicStaging
from tests.queue.scripts.calls import ALL
from tests.servers import private_server
from tests.staging.test_staging import rows, stage

CALLS = {call.script: call.args for call in ALL if call.script.startswith("staging/")}
DELAY = [
    f"q:{part}"
    for part in ("z", "h", "leases", "extended", "receives", "dead", "wake", "errors", "counters")
]
KEYS: dict[str, list[str]] = {
    "staging/stage": ["new", "index"],
    "staging/commit": ["commits", "held", "heldrows", "record", "list"],
    "staging/merge": ["list", "other"],
    "staging/drop": ["held", "index", "list"],
    "staging/queue": ["ready", "held", "heldrows", "moving"],
    "staging/topic": ["q:nextIndex", "q:firstIndex", "q:wake", "held", "heldrows", "moving", "q:1"],
    "staging/delay": ["held", "heldrows", "delaying", *DELAY],
}
#: The keys that may be anybody's: a list that is none is left alone.
LISTS = {"new", "list", "other", "moving", "delaying", "q:1"}
#: Those whose type is not checked: counts of another type are left alone, too.
UNCHECKED = {*LISTS, "q:counters"}


class Slots:
    """Keys of one test."""

    def __init__(self, client: Any, name: str) -> None:
        self.client, self.name = client, name

    def key(self, slot: str) -> str:
        return f"{self.name}:{slot}"

    def call(self, script: str, *args: Any, keys: list[str] | None = None) -> Any:
        named = [self.key(slot) for slot in keys or KEYS[script]]
        return self.client.eval(scripts.load(script).text.decode(), len(named), *named, *args)

    def dump(self) -> dict[bytes, bytes | None]:
        return {key: self.client.dump(key) for key in self.client.scan_iter(f"{self.name}:*")}


@pytest.fixture
def slots(plain_client: redis.Redis, name: str) -> Slots:
    """One list that is staged, and two that are committed."""
    slots = Slots(plain_client, name)
    for slot, bodies in {"list": ["b", "a"], "other": ["c"], "moving": ["m"]}.items():
        slots.client.rpush(slots.key(slot), *bodies)
    slots.client.rpush(slots.key("delaying"), "1:5000:1:kbody")
    slots.client.sadd(slots.key("index"), slots.key("list"), slots.key("other"))
    for slot in ("moving", "delaying"):
        slots.client.zadd(slots.key("held"), {slots.key(slot): 0})
        slots.client.hset(slots.key("heldrows"), slots.key(slot), 1)
    return slots


@pytest.mark.parametrize(
    ("script", "keys"),
    [
        ("staging/merge", ["list", "list"]),
        ("staging/drop", ["held", "index"]),
        ("staging/delay", ["held", "heldrows", "delaying"]),
        ("staging/delay", ["held", "heldrows", "delaying", *DELAY, "more"]),
    ],
)
def test_bad_keys_are_refused(slots: Slots, script: str, keys: list[str]) -> None:
    before = slots.dump()
    with pytest.raises(ResponseError, match="ACKQ_ARGUMENT"):
        slots.call(script, *CALLS[script], keys=keys)
    assert slots.dump() == before


@pytest.mark.parametrize(
    ("script", "slot"),
    [(script, slot) for script in CALLS for slot in KEYS[script] if slot not in UNCHECKED],
)
def test_a_key_of_another_type_is_an_error_before_anything_is_changed(
    slots: Slots, script: str, slot: str
) -> None:
    slots.client.delete(slots.key(slot))
    if slot.startswith(("q:next", "q:first")):
        slots.client.rpush(slots.key(slot), "a list")
    else:
        slots.client.set(slots.key(slot), "text")
    before = slots.dump()
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        slots.call(script, *CALLS[script])
    assert slots.dump() == before


def test_a_list_is_begun_once_with_a_time_to_live(slots: Slots) -> None:
    assert slots.call("staging/stage", 60_000, "a", "b") == 2
    assert slots.client.lrange(slots.key("new"), 0, -1) == [b"b", b"a"]
    for slot in ("new", "index"):
        assert 0 < slots.client.pttl(slots.key(slot)) <= 60_000
    assert slots.client.sismember(slots.key("index"), slots.key("new"))
    before = slots.dump()
    assert slots.call("staging/stage", 60_000, "a", "b") == 0
    assert slots.dump() == before


def test_a_commit_that_is_refused_changes_nothing(slots: Slots) -> None:
    before = slots.dump()
    assert slots.call("staging/commit", "writer", 5, 3) == [b"lost", 1]
    assert slots.call("staging/commit", "writer", 5, 1) == [b"lost", 1]
    assert slots.dump() == before
    slots.client.hset(slots.key("commits"), "writer", 5)
    before = slots.dump()
    assert slots.call("staging/commit", "writer", 5, 2) == [b"known", 5]
    assert slots.call("staging/commit", "writer", 4, 2) == [b"known", 5]
    assert slots.dump() == before


def test_a_commit_keeps_the_lists_and_marks_the_batch(slots: Slots) -> None:
    slots.client.pexpire(slots.key("list"), 60_000)
    assert slots.call("staging/commit", "writer", 2**53 - 1, 2) == [b"ok", 2]
    assert slots.client.pttl(slots.key("list")) == -1
    assert slots.client.zscore(slots.key("held"), slots.key("list")) == 0
    assert slots.client.hget(slots.key("heldrows"), slots.key("list")) == b"2"
    assert slots.client.hget(slots.key("commits"), "writer") == b"9007199254740991"


def test_a_merge_needs_a_list_to_merge_into(slots: Slots) -> None:
    before = slots.dump()
    assert slots.call("staging/merge", 10, keys=["list", "absent"]) == -1
    assert slots.dump() == before
    assert slots.call("staging/merge", 1) == 1
    assert slots.call("staging/merge", 1) == 0
    assert slots.client.lrange(slots.key("other"), 0, -1) == [b"b", b"a", b"c"]


def test_what_is_committed_or_foreign_is_not_dropped(slots: Slots) -> None:
    slots.client.set(slots.key("text"), "mine")
    slots.client.sadd(slots.key("index"), slots.key("moving"), slots.key("text"))
    keys = ["held", "index", "list", "other", "moving", "text", "absent"]
    assert slots.call("staging/drop", keys=keys) == 2
    assert not slots.client.exists(slots.key("list"), slots.key("other"), slots.key("index"))
    assert slots.client.exists(slots.key("moving"), slots.key("text")) == 2


@pytest.mark.parametrize(
    ("script", "slot", "reply"),
    [
        ("staging/topic", "moving", [b"ok", 0, 0]),
        ("staging/delay", "delaying", [0, 0, 0]),
        ("staging/queue", "moving", 0),
    ],
)
def test_a_list_that_is_not_committed_is_left_alone(
    slots: Slots, script: str, slot: str, reply: list[Any]
) -> None:
    slots.client.zrem(slots.key("held"), slots.key(slot))
    before = slots.dump()
    assert slots.call(script, *CALLS[script]) == reply
    assert slots.dump() == before


@pytest.mark.parametrize(
    ("script", "slot"),
    [("staging/topic", "moving"), ("staging/delay", "delaying"), ("staging/queue", "moving")],
)
def test_a_key_that_is_no_list_is_waited_for_no_longer(
    slots: Slots, script: str, slot: str
) -> None:
    slots.client.set(slots.key(slot), "somebody else's")
    slots.call(script, *CALLS[script])
    assert slots.client.get(slots.key(slot)) == b"somebody else's"
    assert not slots.client.zscore(slots.key("held"), slots.key(slot))
    assert not slots.client.hexists(slots.key("heldrows"), slots.key(slot))


MIB = 1024 * 1024


def test_one_call_merges_a_mebibyte(slots: Slots) -> None:
    slots.client.rpush(slots.key("list"), *(b"x" * (3 * MIB // 8) for _ in range(5)))
    assert slots.call("staging/merge", 2000) == 4


def test_one_call_publishes_a_mebibyte_or_a_thousand_rows(slots: Slots) -> None:
    slots.client.lpush(slots.key("moving"), *(b"x" * (3 * MIB // 8) for _ in range(5)))
    named = [*KEYS["staging/topic"][:-1], *(f"q:{index}" for index in range(1, 1200))]
    assert slots.call("staging/topic", 0, 0, keys=named) == [b"ok", 4, 2]
    assert slots.client.hget(slots.key("heldrows"), slots.key("moving")) == b"2"
    slots.client.lpush(slots.key("moving"), *(b"y" for _ in range(1100)))
    assert slots.call("staging/topic", 0, 0, keys=named) == [b"ok", 1004, 102]


def test_one_call_stores_a_mebibyte(slots: Slots) -> None:
    body = b"x" * (3 * MIB // 8)
    slots.client.lpush(slots.key("delaying"), *(b"1:5:1:%d%b" % (n, body) for n in range(5)))
    assert slots.call("staging/delay", 1000) == [4, 2, 0]
    assert slots.client.hget(slots.key("heldrows"), slots.key("delaying")) == b"2"


def test_what_others_left_under_a_key_is_not_the_new_messages(slots: Slots) -> None:
    slots.client.zadd(slots.key("q:leases"), {"k": 7})
    slots.client.hset(slots.key("q:extended"), "k", "7:7")
    slots.client.hset(slots.key("q:receives"), "k", 7)
    assert slots.call("staging/delay", 10) == [1, 0, 0]
    assert slots.client.hgetall(slots.key("q:h")) == {b"k": b"body"}
    assert not slots.client.exists(*(slots.key(slot) for slot in DELAY[2:5]))


def test_one_consumer_is_woken_by_the_next_message_and_only_by_it(slots: Slots) -> None:
    wake = slots.key("q:wake")
    assert slots.call("staging/delay", 10) == [1, 0, 0]
    assert slots.client.lrange(wake, 0, -1) == [b"1"]
    for row in ("1:4000:1:abody", "1:6000:1:zbody"):
        slots.client.lpush(slots.key("delaying"), row)
        slots.client.zadd(slots.key("held"), {slots.key("delaying"): 0})
        assert slots.call("staging/delay", 10) == [1, 0, 0]
        assert slots.client.llen(wake) == (row[2] == "4")  # never two, and none for a later one
        slots.client.delete(wake)


def test_a_body_without_a_time_is_due_now_and_a_time_is_bounded(slots: Slots) -> None:
    slots.client.hset(slots.key("q:h"), "k", "body")
    slots.client.lpush(slots.key("delaying"), "1:9007199254740991:1:lbody")
    before = slots.client.time()[0]
    assert slots.call("staging/delay", 10) == [2, 0, 0]
    assert before <= slots.client.zscore(slots.key("q:z"), "k") <= before + 60
    assert slots.client.zscore(slots.key("q:z"), "l") == 8589934591


def test_rows_for_one_time_keep_their_order(slots: Slots) -> None:
    keys = [str(2000 - number) for number in range(60)]
    for first in (0, 30):
        rows = (f"1:4000000000000000:4:{key}body" for key in keys[first : first + 30])
        slots.client.delete(slots.key("delaying"))
        slots.client.lpush(slots.key("delaying"), *rows)
        slots.client.zadd(slots.key("held"), {slots.key("delaying"): 0})
        assert slots.call("staging/delay", 100) == [30, 0, 0]
    assert slots.client.zrange(slots.key("q:z"), 0, -1) == [key.encode() for key in keys]


def test_a_topic_that_was_begun_anew_wakes_its_consumers(slots: Slots) -> None:
    slots.client.xadd(slots.key("q:wake"), {"n": ""}, id="9-0")
    assert slots.call("staging/topic", 0, 0) == [b"ok", 1, 0]
    assert [id for id, _ in slots.client.xrange(slots.key("q:wake"))] == [b"1-0"]


def arrive(slots: Slots, bodies: list[bytes], ready: list[bytes]) -> list[int]:
    """Commit a list to a queue; return the reply of each call."""
    slots.client.delete(slots.key("moving"))
    for slot, listed in {"moving": bodies, "ready": ready}.items():
        if listed:
            slots.client.lpush(slots.key(slot), *listed)
    replies = [slots.call("staging/queue")]
    while replies[-1]:
        replies.append(slots.call("staging/queue"))
    assert slots.client.lrange(slots.key("ready"), 0, -1) == [*ready, *bodies][::-1]
    assert not slots.client.zscore(slots.key("held"), slots.key("moving"))
    assert not slots.client.hexists(slots.key("heldrows"), slots.key("moving"))
    return replies


def test_a_list_of_any_length_becomes_the_ready_list_if_it_is_empty(slots: Slots) -> None:
    assert arrive(slots, [b"%d" % n for n in range(3000)], []) == [0]


def test_a_list_that_would_expire_becomes_a_ready_list_that_does_not(slots: Slots) -> None:
    slots.client.pexpire(slots.key("moving"), 60_000)
    assert slots.call("staging/queue") == 0
    assert slots.client.ttl(slots.key("ready")) == -1


@pytest.mark.parametrize(
    ("bodies", "replies"),
    [
        ([b"%d" % n for n in range(2010)], [1010, 10, 0]),
        ([b"%d" % n + b"x" * (3 * MIB // 8) for n in range(5)], [2, 0]),
        # A slice of short rows does not say that the next are short, too.
        ([*(b"%d" % n for n in range(17)), *[b"x" * MIB] * 20], [4, 3, 2, 1, 0]),
    ],
)
def test_a_list_goes_behind_ready_messages_in_steps(
    slots: Slots, bodies: list[bytes], replies: list[int]
) -> None:
    assert arrive(slots, bodies, [b"first", b"second"]) == replies


def test_the_count_of_what_is_left_is_kept(slots: Slots) -> None:
    slots.client.rpush(slots.key("moving"), *range(1100))
    slots.client.rpush(slots.key("ready"), "first")
    assert slots.call("staging/queue") == 101
    assert slots.client.hget(slots.key("heldrows"), slots.key("moving")) == b"101"


def test_a_wrong_guess_publishes_nothing(slots: Slots) -> None:
    slots.client.set(slots.key("q:nextIndex"), 7)
    before = slots.dump()
    for guess in (0, 6, 8):
        assert slots.call("staging/topic", guess, 0) == [b"moved", 7]
    assert slots.dump() == before


def test_a_row_that_names_no_partition_changes_nothing(slots: Slots) -> None:
    for bad in ("2:5:1:k", "0:5:1:k", "no row"):
        slots.client.lset(slots.key("delaying"), 0, bad)
        before = slots.dump()
        with pytest.raises(ResponseError, match="ACKQ_VALUE"):
            slots.call("staging/delay", 10)
        assert slots.dump() == before


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with private_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_a_full_server_commits_what_it_accepted_and_accepts_no_more(
    server: Server, token: str
) -> None:
    with (
        redis.Redis.from_url(server.url) as client,
        Staging(client, token, "w") as writer,
        Queue(client, token) as queue,
    ):
        staged = [stage(writer, 0, rows(2500, str(task)), f"{task}-a") for task in range(3)]
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(OutOfMemoryError):
                stage(writer, 0, rows(1), "3-a")
            with pytest.raises(OutOfMemoryError):
                writer.stage(0, staged[0], rows(1))
            assert writer.commit(0, staged) == 7500
            assert queue.pop() is not None
            writer.commit(1, [])
            assert writer.committed() == 1
        finally:
            client.config_set("maxmemory", 0)
        assert queue.stats().ready == 7499


def test_lists_are_merged_on_a_full_server(server: Server, token: str) -> None:
    with redis.Redis.from_url(server.url) as client:
        slots = Slots(client, token)
        for slot in ("list", "other"):
            client.rpush(slots.key(slot), "a", "b")
        client.config_set("maxmemory", 1)
        try:
            assert slots.call("staging/merge", 10) == 0
        finally:
            client.config_set("maxmemory", 0)
        assert client.llen(slots.key("other")) == 4


@pytest.mark.parametrize("kind", [TopicStaging, DelayStaging])
def test_on_a_full_server_committed_rows_wait(server: Server, token: str, kind: Any) -> None:
    with redis.Redis.from_url(server.url) as client, kind(client, token, "w") as writer:
        staged = Staged("0-a")
        delay = isinstance(writer, DelayStaging)
        writer.stage(0, staged, [writer.row("k", 0, b"x") if delay else b"x"])
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(OutOfMemoryError):
                writer.commit(0, [staged])
            assert writer.committed() == 0
        finally:
            client.config_set("maxmemory", 0)
        assert writer.finish() == 1
        stored = client.zcard(f"{token}:z") if delay else client.get(f"{token}:nextIndex")
        assert int(stored) == 1
