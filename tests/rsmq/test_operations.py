"""Every operation through both faces, on every server, in clusters too."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import redis

import ackq
from ackq import scripts
from ackq.rsmq import (
    InvalidFormat,
    InvalidValue,
    MessageNotString,
    MessageTooLong,
    QueueExists,
    QueueNotFound,
    RSMQError,
)
from tests.large import large_bodies
from tests.rsmq.conftest import MakeRSMQ
from tests.servers import Target
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.rsmq.conftest import RSMQUnderTest

ID = "a" * 32


@pytest.fixture
def rsmq(make_rsmq: MakeRSMQ) -> RSMQUnderTest:
    """A client with a queue "q"."""
    made = make_rsmq()
    made.create_queue("q")
    return made


def test_a_message_goes_through(rsmq: RSMQUnderTest) -> None:
    id = rsmq.send_message("q", "größer 😀")
    received = rsmq.receive_message("q")
    assert (received.id, received.message, received.rc) == (id, "größer 😀", 1)
    assert received.body == "größer 😀".encode()
    assert received.sent == pytest.approx(time.time() * 1000, abs=60_000)
    assert 0 <= received.fr - received.sent + 1 < 60_000  # type: ignore[operator]
    assert rsmq.receive_message("q") is None
    assert rsmq.delete_message("q", id) is True
    assert rsmq.delete_message("q", id) is False


def test_a_queue_is_listed_and_deleted_with_all_it_has(
    make_rsmq: MakeRSMQ, target: Target, name: str
) -> None:
    rsmq = make_rsmq(max_receives=1)
    for qname in ("b", "a"):
        rsmq.create_queue(qname)
    assert rsmq.list_queues() == ["a", "b"]
    rsmq.send_messages("a", ["dead", "alive"])
    rsmq.receive_message("a", vt=0)
    assert rsmq.receive_message("a").message == "alive"
    assert rsmq.receive_message("a") is None
    assert len(rsmq.dead_letters("a")) == 1
    rsmq.delete_queue("a")
    assert rsmq.list_queues() == ["b"]
    with pytest.raises(QueueNotFound):
        rsmq.delete_queue("a")
    assert sorted(target.control.scan_iter(f"{name}*")) == [
        f"{name}:QUEUES".encode(),
        f"{name}:b:Q".encode(),
    ]


def test_creating_again_changes_nothing_and_lists_what_a_crash_left_unlisted(
    rsmq: RSMQUnderTest, target: Target, name: str
) -> None:
    target.control.delete(f"{name}:QUEUES")
    with pytest.raises(QueueExists):
        rsmq.create_queue("q", vt=1)
    assert rsmq.get_queue_attributes("q").vt == 30
    assert rsmq.list_queues() == ["q"]


def test_attributes_are_set_and_counted(rsmq: RSMQUnderTest, target: Target, name: str) -> None:
    target.control.hset(f"{name}:q:Q", "modified", 1)
    rsmq.send_messages("q", ["a", "b", "c"])
    rsmq.send_message("q", "later", delay=60)
    rsmq.receive_message("q")
    found = rsmq.set_queue_attributes("q", vt=5, delay=6, maxsize=1024)
    assert (found.vt, found.delay, found.maxsize) == (5, 6, 1024)
    assert (found.totalsent, found.totalrecv, found.msgs, found.hiddenmsgs) == (4, 1, 4, 2)
    assert found.created <= found.modified == pytest.approx(time.time(), abs=60)  # type: ignore[operator]
    assert rsmq.set_queue_attributes("q", maxsize=-1).maxsize == -1
    assert rsmq.get_queue_attributes("q").vt == 5


def test_a_message_is_hidden_until_its_millisecond_begins(
    plain_client: redis.Redis, name: str
) -> None:
    text = scripts.load("rsmq/attributes").text.decode()
    text = text.replace("redis.call('TIME')", "{'1000', '999'}")
    plain_client.hset(f"{name}:Q", "vt", 30)
    plain_client.zadd(name, {"visible": 1_000_000, "hidden": 1_000_001})
    assert plain_client.eval(text, 2, name, f"{name}:Q")[-2:] == [2, 1]


def test_the_counts_of_a_queue_go_on_until_it_is_deleted(make_rsmq: MakeRSMQ) -> None:
    rsmq = make_rsmq(max_receives=1)
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["dies", "stays", "is popped"])
    rsmq.send_message("q", "later", delay=60)
    rsmq.receive_message("q", vt=0)
    assert rsmq.receive_message("q").message == "stays"
    assert rsmq.pop_message("q").message == "is popped"
    wait_until(lambda: rsmq.receive_message("q") is None and rsmq.dead_letters("q"), "a death")
    counts = rsmq.counters("q")
    assert (counts.pushed, counts.taken, counts.acked, counts.letters) == (4, 3, 1, 1)
    assert counts.dead in (1, None)
    rsmq.delete_queue("q")
    with pytest.raises(QueueNotFound):
        rsmq.counters("q")


def test_a_batch_is_received_in_order_across_chunks(rsmq: RSMQUnderTest) -> None:
    texts = [str(n) for n in range(2100)]
    ids = rsmq.send_messages("q", texts)
    assert len(set(ids)) == 2100
    first = rsmq.receive_messages("q", 5000)
    assert len(first) == 1000
    rest = rsmq.receive_messages("q", 1000) + rsmq.receive_messages("q", 1000)
    assert [each.message for each in first + rest] == texts
    assert [each.id for each in first + rest] == ids
    assert {each.rc for each in rest} == {1}
    assert rsmq.delete_messages("q", [*ids, *ids[:10]]) == 2100
    assert rsmq.get_queue_attributes("q").msgs == 0
    assert rsmq.send_messages("q", []) == []
    assert rsmq.delete_messages("q", []) == 0


def test_batches_of_one_client_are_received_in_the_order_of_their_sends(
    rsmq: RSMQUnderTest,
) -> None:
    texts = [f"{batch}:{n}" for batch in range(20) for n in range(100)]
    for first in range(0, 2000, 100):
        rsmq.send_messages("q", texts[first : first + 100])
    got = [message.message for _ in range(2) for message in rsmq.receive_messages("q", 1000)]
    assert got == texts


def test_a_large_batch_is_moved_in_parts_of_a_few_mib(rsmq: RSMQUnderTest) -> None:
    rsmq.set_queue_attributes("q", maxsize=-1)
    rsmq.send_messages("q", ["x" * (1024 * 1024)] * 24)
    sizes = []
    while received := rsmq.receive_messages("q", 100):
        sizes.append(len(received))
    assert sum(sizes) == 24
    assert max(sizes) <= 16


def test_a_call_stores_1_mib_at_most(rsmq: RSMQUnderTest, target: Target) -> None:
    rsmq.set_queue_attributes("q", maxsize=-1)
    rsmq.send_message("q", "the script is loaded now")
    before = target.calls("evalsha")
    bodies = large_bodies()
    assert len(rsmq.send_messages("q", bodies)) == len(bodies)
    assert target.calls("evalsha") - before == len(bodies)


@pytest.mark.parametrize(("character", "calls"), [("x", 1), ("\u20ac", 4)])
def test_a_call_counts_few_long_characters(
    rsmq: RSMQUnderTest, target: Target, character: str, calls: int
) -> None:
    rsmq.send_message("q", "the script is loaded now")
    before = target.calls("evalsha")
    rsmq.send_messages("q", [character * 30_000] * 4)
    assert target.calls("evalsha") - before == calls


def test_long_dead_letters_are_read_one_by_one(make_rsmq: MakeRSMQ, target: Target) -> None:
    rsmq = make_rsmq(max_receives=1)
    rsmq.create_queue("q", vt=0, maxsize=-1)
    texts = [f"{number}" * 600_000 for number in range(4)]
    rsmq.send_messages("q", texts)
    while not target.control.exists(key := f"{rsmq.ns}:q:Q.dead") or target.control.xlen(key) < 4:
        rsmq.receive_messages("q", 10)
    before = target.calls("xrange")
    assert [letter.body.decode() for letter in rsmq.dead_letters("q", 5)] == texts
    assert target.calls("xrange") - before == 5
    assert len(rsmq.dead_letters("q", 3)) == 3


def test_visibility_is_moved_both_ways(rsmq: RSMQUnderTest) -> None:
    id = rsmq.send_message("q", "m", delay=1000)
    assert rsmq.change_message_visibility("q", id, 0) is True
    assert rsmq.receive_message("q", vt=0).rc == 1
    assert rsmq.change_message_visibility("q", id, 1000) is True
    assert rsmq.receive_message("q") is None
    assert rsmq.change_message_visibility("q", ID, 0) is False


def test_bytes_are_kept_and_shown_as_text_as_far_as_they_are(rsmq: RSMQUnderTest) -> None:
    rsmq.send_messages("q", [b"\xff\x00", ""])
    odd, empty = rsmq.receive_messages("q", 2)
    assert (odd.body, odd.message, empty.message) == (b"\xff\x00", "�\0", "")


def test_a_message_is_measured_as_javascript_does(rsmq: RSMQUnderTest) -> None:
    rsmq.set_queue_attributes("q", maxsize=1024)
    for text in ("x" * 1024, "ü" * 1024, "€" * 1024, "😀" * 512):
        rsmq.send_message("q", text)
        with pytest.raises(MessageTooLong, match="1024"):
            rsmq.send_message("q", text + "x")
    with pytest.raises(MessageTooLong, match="message 2 of"):
        rsmq.send_messages("q", ["ok", "x" * 5000, "ok"])
    assert rsmq.get_queue_attributes("q").msgs == 4


def test_what_was_stored_before_a_message_too_long_is_reported(rsmq: RSMQUnderTest) -> None:
    with pytest.raises(MessageTooLong, match="message 1500 of") as caught:
        rsmq.send_messages("q", [*["x"] * 1499, "x" * 65_537])
    assert caught.value.__notes__ == ["ackq: the first 1000 of 1500 messages are stored"]
    assert rsmq.get_queue_attributes("q").msgs == 1000


@pytest.mark.parametrize("qname", ["a b", "a:b", "ä", "x" * 161, "q\n", b"q", 7, ["q"], "{q}"])
def test_a_name_that_cannot_be_one_is_refused_by_every_operation(
    rsmq: RSMQUnderTest, qname: Any
) -> None:
    refuse: Callable[[], Any]
    for refuse in (
        lambda: rsmq.create_queue(qname),
        lambda: rsmq.delete_queue(qname),
        lambda: rsmq.get_queue_attributes(qname),
        lambda: rsmq.set_queue_attributes(qname, vt=1),
        lambda: rsmq.send_message(qname, "m"),
        lambda: rsmq.send_messages(qname, ["m"]),
        lambda: rsmq.receive_message(qname),
        lambda: rsmq.receive_messages(qname, 1),
        lambda: rsmq.pop_message(qname),
        lambda: rsmq.delete_message(qname, ID),
        lambda: rsmq.delete_messages(qname, [ID]),
        lambda: rsmq.change_message_visibility(qname, ID, 1),
        lambda: rsmq.dead_letters(qname),
        lambda: rsmq.drop_dead_letters(qname, "1-1"),
        lambda: rsmq.redrive(qname),
        lambda: rsmq.delete_message("q", qname),
        lambda: rsmq.change_message_visibility("q", qname, 1),
    ):
        with pytest.raises(InvalidFormat):
            refuse()


def test_the_longest_name_is_allowed(rsmq: RSMQUnderTest) -> None:
    rsmq.create_queue("x-_A9" * 32)


@pytest.mark.parametrize("value", [-1, 10_000_000, 0.5, "30", True, float("nan")])
def test_a_number_of_seconds_out_of_range_is_refused(rsmq: RSMQUnderTest, value: Any) -> None:
    refuse: Callable[[], Any]
    for refuse in (
        lambda: rsmq.create_queue("p", vt=value),
        lambda: rsmq.create_queue("p", delay=value),
        lambda: rsmq.set_queue_attributes("q", vt=value),
        lambda: rsmq.set_queue_attributes("q", delay=value),
        lambda: rsmq.send_message("q", "m", delay=value),
        lambda: rsmq.receive_message("q", vt=value),
        lambda: rsmq.change_message_visibility("q", ID, value),
    ):
        with pytest.raises(InvalidValue, match="0 and 9999999"):
            refuse()
    assert rsmq.list_queues() == ["q"]


@pytest.mark.parametrize("message", [None, 7, {"a": 1}, ["x"], "\ud800"])
def test_a_message_is_text(rsmq: RSMQUnderTest, message: Any) -> None:
    with pytest.raises(MessageNotString):
        rsmq.send_message("q", message)
    with pytest.raises(MessageNotString):
        rsmq.send_messages("q", ["ok", message])
    assert rsmq.get_queue_attributes("q").msgs == 0


def test_every_operation_on_no_queue_says_so(rsmq: RSMQUnderTest) -> None:
    refuse: Callable[[], Any]
    for refuse in (
        lambda: rsmq.get_queue_attributes("p"),
        lambda: rsmq.set_queue_attributes("p", vt=1),
        lambda: rsmq.send_message("p", "m"),
        lambda: rsmq.send_messages("p", ["m"]),
        lambda: rsmq.receive_message("p"),
        lambda: rsmq.receive_message("p", timeout=5),
        lambda: rsmq.pop_message("p"),
        lambda: rsmq.change_message_visibility("p", ID, 1),
        lambda: rsmq.delete_queue("p"),
        lambda: rsmq.redrive("p", 1),
    ):
        with pytest.raises(QueueNotFound, match="create it first") as caught:
            refuse()
        assert isinstance(caught.value, RSMQError | LookupError)
    assert rsmq.delete_message("p", ID) is False
    assert rsmq.dead_letters("p") == []


def test_a_deleted_queue_ends_a_wait(rsmq: RSMQUnderTest, make_rsmq: MakeRSMQ) -> None:
    waiter = make_rsmq()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waiter.receive_message, "q", None, 20)
        rsmq.delete_queue("q")
        with pytest.raises(QueueNotFound):
            waiting.result(10)


def test_poison_goes_to_the_dead_letters_alone(make_rsmq: MakeRSMQ) -> None:
    rsmq = make_rsmq(max_receives=2)
    rsmq.create_queue("q", vt=0)
    ids = rsmq.send_messages("q", ["killer", "b", "c"])
    assert [message.rc for message in rsmq.receive_messages("q", 3)] == [1, 1, 1]
    # On its last permitted receive each travels alone.
    alone = [rsmq.receive_messages("q", 3, vt=60) for _ in range(3)]
    assert [[each.id for each in batch] for batch in alone] == [[id] for id in ids]
    rsmq.delete_messages("q", ids[1:])
    rsmq.change_message_visibility("q", ids[0], 0)
    assert rsmq.receive_message("q") is None
    [letter] = rsmq.dead_letters("q")
    assert (letter.id, letter.body, letter.rc) == (ids[0], b"killer", 2)
    assert letter.fr <= letter.died_at  # type: ignore[operator]
    assert rsmq.get_queue_attributes("q").msgs == 0
    assert (rsmq.redrive("q", 0), rsmq.redrive("q"), rsmq.redrive("q")) == (0, 1, 0)
    again = rsmq.receive_message("q", vt=60)
    assert (again.id, again.message, again.rc) == (ids[0], "killer", 1)


def test_many_dead_letters_are_read_and_redriven_in_order(make_rsmq: MakeRSMQ) -> None:
    rsmq, plain = make_rsmq(max_receives=1), make_rsmq()
    rsmq.create_queue("q")
    ids = rsmq.send_messages("q", [str(n) for n in range(40)])
    plain.receive_messages("q", 40, vt=0)
    assert rsmq.pop_message("q") is None
    wait_until(lambda: not rsmq.receive_messages("q", 40), "all to be dead")
    assert [letter.id for letter in rsmq.dead_letters("q")] == ids
    assert [letter.id for letter in rsmq.dead_letters("q", 3)] == ids[:3]
    assert rsmq.dead_letters("q", 0) == []
    letters = rsmq.dead_letters("q")
    assert rsmq.dead_letters("q", 5, after=letters[9].entry) == letters[10:15]
    for call in (
        lambda: rsmq.dead_letters("q", after="x"),
        lambda: rsmq.redrive("q", entries=["x"]),
        lambda: rsmq.drop_dead_letters("q", "1-1", "x"),
    ):
        with pytest.raises(ackq.ConfigurationError, match="not the entry of a dead letter"):
            call()
    chosen = [letter.entry for letter in letters[20:38]]
    assert rsmq.redrive("q", entries=[*chosen, "1-1"]) == 18
    assert rsmq.redrive("q", entries=chosen[:2]) == 0
    assert {message.id for message in plain.receive_messages("q", 40)} == {*ids[20:38]}
    assert rsmq.redrive("q", 20) == 20
    assert [message.id for message in plain.receive_messages("q", 40)] == ids[:20]
    last = letters[-1].entry
    assert rsmq.drop_dead_letters("q", last, last, "1-1") == 1
    assert rsmq.redrive("q") == 1


def test_a_cluster_asks_for_a_hash_tag(make_rsmq: MakeRSMQ, target: Target, token: str) -> None:
    rsmq = make_rsmq(ns=token)
    if target.cluster:
        with pytest.raises(ackq.CrossSlotError):
            rsmq.create_queue("q")
    else:
        rsmq.create_queue("q")


def test_one_round_trip_an_operation(rsmq: RSMQUnderTest, target: Target) -> None:
    rsmq.get_queue_attributes("q")  # loads what is loaded once
    operations: list[tuple[str, Any]] = [
        ("create_queue", ("p",)),
        ("list_queues", ()),
        ("send_message", ("q", "m")),
        ("send_messages", ("q", ["m"] * 100)),
        ("receive_message", ("q",)),
        ("receive_messages", ("q", 50)),
        ("pop_message", ("q",)),
        ("delete_message", ("q", ID)),
        ("delete_messages", ("q", [ID] * 10)),
        ("change_message_visibility", ("q", ID, 1)),
        ("set_queue_attributes", ("q", 7)),
        ("get_queue_attributes", ("q",)),
        ("dead_letters", ("q",)),
        ("delete_queue", ("p",)),
    ]
    for name, args in operations:
        getattr(rsmq, name)(*args) if name not in ("create_queue", "delete_queue") else None
    rsmq.create_queue("w")
    rsmq.delete_queue("w")
    for name, args in operations:
        before = calls(target)
        getattr(rsmq, name)(*args)
        assert calls(target) - before == 1, name


def calls(target: Target) -> int:
    """Return how many requests of ours the servers have had."""
    nodes = {"target_nodes": "primaries"} if target.cluster else {}
    info: Any = target.control.info("commandstats", **nodes)
    parts = info.values() if target.cluster else [info]
    wanted = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_smembers", "cmdstat_xrange")
    return sum(part[name]["calls"] for part in parts for name in wanted if name in part)
