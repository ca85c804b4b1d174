"""What other programs may have left on the keys: nothing of it loses a message or stops a queue."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ackq
from ackq.rsmq import RSMQ, InvalidValue, QueueNotFound
from tests.rsmq.conftest import MakePeer, MakeRSMQ
from tests.servers import Target, private_server

ID = "hod4lweixf" + "A" * 22

BODIES = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"not json",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"0",
    b"-1",
    b"1e999",
    b"nan",
    b'{"id":null}',
    b'"\\ud800"',
    b"'single'",
    b"%s%d",
    b"\r\n+OK\r\n",
    b"vt",
    b"totalsent",
    b":rc",
    b"KEYS[1]",
    b"[" * 2000,
    b"\xf0\x9f\x98\x80" * 100,
    b"x" * 65_536,
]
UNREADABLE = [b"", b"abc", b"nan", b"inf", b"-inf", b"-1", b"1e300", b"10000000", b"3 0", b"\xff"]


def test_every_body_goes_through_as_it_is(make_rsmq: MakeRSMQ) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    for body in BODIES:
        rsmq.send_message("q", body)
    rsmq.send_messages("q", BODIES)
    got = [rsmq.receive_message("q") for _ in BODIES] + rsmq.receive_messages("q", 100)
    assert [each.body for each in got] == BODIES * 2
    assert all(isinstance(each.message, str) for each in got)
    assert rsmq.delete_messages("q", [each.id for each in got]) == 2 * len(BODIES)


@settings(max_examples=150, suppress_health_check=list(HealthCheck), database=None)
@given(bodies=st.lists(st.one_of(st.binary(max_size=300), st.text(max_size=100)), max_size=8))
def test_any_bytes_and_any_text_go_through(
    plain_client: redis.Redis, url: str, token: str, bodies: list[bytes | str]
) -> None:
    with RSMQ.from_url(url, token) as rsmq:
        plain_client.unlink(f"{token}:q:Q", f"{token}:q")
        rsmq.create_queue("q")
        rsmq.send_messages("q", bodies)
        got = rsmq.receive_messages("q", 100)
        expected = [body.encode() if isinstance(body, str) else body for body in bodies]
        assert [each.body for each in got] == expected


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize("attribute", ["vt", "delay", "maxsize"])
def test_an_attribute_that_cannot_be_read_is_named_and_can_be_mended(
    make_rsmq: MakeRSMQ, target: Target, name: str, attribute: str, value: bytes
) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "m")
    target.control.hset(f"{name}:q:Q", attribute, value)
    if attribute == "maxsize" and value in (b"-1", b"10000000"):
        return  # large, or none: as good as any
    rsmq.get_queue_attributes("q")
    with pytest.raises(InvalidValue, match=f"{attribute}=.*set_queue_attributes"):
        use(rsmq, attribute)
    # Whoever gives the value does not need it, and nothing was changed.
    if attribute == "delay":
        rsmq.delete_message("q", rsmq.send_message("q", "n", delay=0))
    assert rsmq.receive_message("q", vt=0).id == id
    mended: dict[str, Any] = {attribute: 2000}
    rsmq.set_queue_attributes("q", **mended)
    rsmq.send_message("q", "n", delay=None if attribute == "maxsize" else 0)
    assert rsmq.get_queue_attributes("q").msgs == 2


@pytest.mark.parametrize("value", [*UNREADABLE, b"1.5", b"9" * 30])
def test_counts_that_cannot_be_read_stop_nothing(
    make_rsmq: MakeRSMQ, target: Target, name: str, value: bytes
) -> None:
    rsmq = make_rsmq(max_receives=5)
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "m")
    for field in ("totalsent", "totalrecv", "created", "modified", f"{id}:rc", f"{id}:fr"):
        target.control.hset(f"{name}:q:Q", field, value)
    rsmq.get_queue_attributes("q")
    if value == b"10000000":
        return  # a count like any other: that message was received too often
    got = rsmq.receive_message("q", vt=0)
    assert got.id == id
    assert got.rc in (1, 2)
    assert rsmq.pop_message("q").rc == got.rc + 1
    rsmq.send_message("q", "n")
    counts = rsmq.get_queue_attributes("q")
    assert 1 <= counts.totalsent <= 10_000_001
    assert 1 <= counts.totalrecv <= 10_000_002


@pytest.mark.parametrize("missing", ["vt", "delay", "maxsize"])
def test_a_queue_without_one_of_its_attributes_is_none_as_in_the_original(
    make_rsmq: MakeRSMQ, target: Target, name: str, missing: str
) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    target.control.hdel(f"{name}:q:Q", missing)
    refuse: Callable[[], Any]
    for refuse in (
        lambda: rsmq.send_message("q", "m"),
        lambda: rsmq.receive_message("q"),
        lambda: rsmq.change_message_visibility("q", ID, 1),
        lambda: rsmq.set_queue_attributes("q", vt=1),
    ):
        with pytest.raises(QueueNotFound):
            refuse()


def test_an_id_whose_body_is_not_there_yet_waits_and_stops_no_other(
    make_rsmq: MakeRSMQ, target: Target, name: str
) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q", vt=0)
    # As a sender that writes in two steps leaves it between them.
    target.control.zadd(f"{name}:q", {ID: 0})
    assert rsmq.receive_message("q", timeout=0.05) is None
    assert rsmq.pop_message("q", timeout=0.05) is None
    target.control.zadd(f"{name}:q", {ID: 0})
    rsmq.send_message("q", "m")
    assert rsmq.pop_message("q").message == "m"
    target.control.hset(f"{name}:q:Q", ID, "at last")
    got = rsmq.receive_message("q", timeout=10)
    assert (got.id, got.message, got.rc) == (ID, "at last", 1)


@pytest.mark.parametrize("member", ["vt", "created", "totalsent", "x" * 31, "é" * 16, "a b" * 11])
def test_what_is_no_id_is_neither_shown_nor_dropped(
    make_rsmq: MakeRSMQ, target: Target, name: str, member: str
) -> None:
    rsmq = make_rsmq(max_receives=1)
    rsmq.create_queue("q")
    before = target.control.hgetall(f"{name}:q:Q")
    target.control.zadd(f"{name}:q", {member: 0})
    target.control.hset(f"{name}:q:Q", member, before.get(member.encode(), b"body"))
    rsmq.send_message("q", "m")
    got = rsmq.receive_message("q") or rsmq.receive_message("q")
    assert got.message == "m"
    assert rsmq.pop_message("q") is None
    after = target.control.hgetall(f"{name}:q:Q")
    assert before.items() <= {**after, b"totalsent": b"0"}.items() | before.items()
    assert member.encode() in after
    assert target.control.zscore(f"{name}:q", member) is not None


def test_many_ids_without_bodies_do_not_wedge_the_queue(
    make_rsmq: MakeRSMQ, target: Target, name: str
) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    orphans: dict[Any, float] = {f"{n:032d}": n for n in range(2500)}
    target.control.zadd(f"{name}:q", orphans)
    rsmq.send_message("q", "m")
    assert rsmq.receive_messages("q", 1000)[0].message == "m"


@pytest.mark.parametrize("score", [float("-inf"), float("inf"), 1.5, -1.0, 9e15])
def test_any_score_is_borne(make_rsmq: MakeRSMQ, target: Target, name: str, score: float) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "m")
    target.control.zadd(f"{name}:q", {id: score})
    got = rsmq.receive_message("q", timeout=0.05)
    assert (got is not None) == (score < 9e14)
    assert rsmq.change_message_visibility("q", id, 0)
    assert rsmq.receive_message("q").id == id


@pytest.mark.parametrize("end", ["", ":Q", ":Q.wake", ":Q.dead", ":Q.errors"])
def test_a_key_of_another_type_is_named_and_nothing_is_changed(
    make_rsmq: MakeRSMQ, target: Target, name: str, end: str
) -> None:
    rsmq = make_rsmq(max_receives=3, realtime=True)
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "m")
    key = f"{name}:q{end}"
    target.control.set(f"{name}:q:Q.waiters", "")
    target.control.delete(key)
    target.control.set(key, "taken")
    before = dump(target, name)
    operations: dict[str, list[tuple[str, tuple[Any, ...]]]] = {
        "": [
            ("send_message", ("q", "n")),
            ("receive_message", ("q",)),
            ("pop_message", ("q",)),
            ("change_message_visibility", ("q", id, 1)),
            ("get_queue_attributes", ("q",)),
        ],
        ":Q": [
            ("create_queue", ("q",)),
            ("send_message", ("q", "n")),
            ("receive_message", ("q",)),
            ("delete_message", ("q", id)),
            ("set_queue_attributes", ("q", 1)),
        ],
        ":Q.wake": [("send_message", ("q", "n")), ("change_message_visibility", ("q", id, 0))],
        ":Q.dead": [
            ("receive_message", ("q",)),
            ("pop_message", ("q",)),
            ("redrive", ("q",)),
            ("dead_letters", ("q",)),
            ("drop_dead_letters", ("q", "1-1")),
        ],
        ":Q.errors": [
            ("receive_message", ("q",)),
            ("delete_message", ("q", id)),
            ("change_message_visibility", ("q", id, 1)),
        ],
    }
    for operation, args in operations[end]:
        with pytest.raises(ackq.KeyTypeError, match="is a string"):
            getattr(rsmq, operation)(*args)
    assert dump(target, name) == before


def test_a_list_of_queues_of_another_type_is_named(
    make_rsmq: MakeRSMQ, target: Target, name: str
) -> None:
    rsmq = make_rsmq()
    target.control.set(f"{name}:QUEUES", "taken")
    refuse: Callable[[], Any]
    for refuse in (
        rsmq.list_queues,
        lambda: rsmq.create_queue("q"),
        lambda: rsmq.delete_queue("q"),
    ):
        with pytest.raises(ackq.KeyTypeError, match="QUEUES"):
            refuse()
    assert dump(target, name) == {f"{name}:QUEUES".encode(): b"taken"}


def test_a_full_server_refuses_sends_and_still_drains(tmp_path: Path) -> None:
    with (
        private_server(tmp_path, maxmemory="4mb", maxmemory_policy="noeviction") as server,
        RSMQ.from_url(server.url, max_receives=3) as rsmq,
        redis.Redis.from_url(server.url) as client,
    ):
        rsmq.create_queue("q")
        sent = fill(rsmq)
        counts = rsmq.get_queue_attributes("q")
        assert counts.msgs == counts.totalsent == sent > 20
        client.config_set("maxmemory", "1mb")  # well over the limit from here on
        first = rsmq.receive_message("q", vt=600)
        assert first is not None
        assert rsmq.change_message_visibility("q", first.id, 0)
        popped = 0
        while rsmq.pop_message("q", timeout=0.01):
            popped += 1
        assert popped == sent
        assert rsmq.receive_message("q", timeout=0.05) is None
        client.config_set("maxmemory", "4mb")
        rsmq.send_message("q", "again")


def fill(rsmq: RSMQ) -> int:
    """Send until the server refuses; return how many it took."""
    for sent in range(10_000):
        try:
            rsmq.send_message("q", "x" * 20_000)
        except redis.exceptions.OutOfMemoryError:
            return sent
    raise AssertionError("the server takes everything")


def test_a_user_who_may_not_publish_gets_an_error_before_anything_is_stored(
    plain_client: redis.Redis, url: str, token: str
) -> None:
    plain_client.acl_setuser(
        token,
        enabled=True,
        passwords=["+secret"],
        keys=["*"],
        commands=["+@all"],
        reset=True,
        reset_channels=True,
    )
    user = url.replace("//", f"//{token}:secret@")
    try:
        with RSMQ.from_url(user, token, realtime=True) as rsmq:
            rsmq.create_queue("q")
            with pytest.raises(redis.ResponseError, match=r"(?i)noperm|can't|permission"):
                rsmq.send_message("q", "m")
            assert rsmq.get_queue_attributes("q").msgs == 0
            assert rsmq.get_queue_attributes("q").totalsent == 0
    finally:
        plain_client.acl_deluser(token)


def test_others_take_no_notice_of_what_is_ackqs_own(
    make_peer: MakePeer, url: str, token: str
) -> None:
    with RSMQ.from_url(url, token, max_receives=1) as ours:
        ours.create_queue("q", vt=0)
        ours.send_messages("q", ["dead", "alive"])
        ours.receive_messages("q", 2)
        ours.receive_messages("q", 2)
        ours.receive_message("q", timeout=0.01)
        others = [make_peer("PyRSMQ"), make_peer("rsmq")]
        for theirs in others:
            assert theirs.names() == {"q"}
            assert theirs.attributes("q")["msgs"] + len(ours.dead_letters("q")) == 2
        others[1].drop("q")
        ours.create_queue("q")
        assert ours.receive_message("q") is None


def use(rsmq: RSMQ, attribute: str) -> None:
    """Call an operation that needs the attribute."""
    if attribute == "vt":
        rsmq.receive_message("q")
    else:
        rsmq.send_message("q", "n")


def dump(target: Target, name: str) -> dict[Any, Any]:
    """Return every key of the namespace with its value."""
    found: dict[Any, Any] = {}
    for key in target.control.scan_iter(f"{name}*"):
        kind: Any = target.control.type(key)
        read: dict[bytes, Any] = {
            b"hash": target.control.hgetall,
            b"set": target.control.smembers,
            b"string": target.control.get,
            b"zset": lambda key: target.control.zrange(key, 0, -1, withscores=True),
            b"list": lambda key: target.control.lrange(key, 0, -1),
            b"stream": target.control.xrange,
        }
        found[key] = read[kind](key)
    return found
