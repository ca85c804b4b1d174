"""ackq beside the original and PyRSMQ, on the same keys, in every combination."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations, product
from typing import Any

import pytest
import redis

from ackq.rsmq import RSMQ
from tests.rsmq.conftest import MakePeer
from tests.rsmq.peers import JavaScript, Node, Peer, PeerError, Python
from tests.waiting import wait_until

# One Node.js for all of them, as for test_suites.
pytestmark = pytest.mark.xdist_group("peers")

KINDS = ("ackq", "ackq-async", "PyRSMQ", "rsmq")
#: A pair of others alone would only test them.
PAIRS = [pair for pair in product(KINDS, KINDS) if any("ackq" in kind for kind in pair)]
TEXTS = ["plain", '{"id": 1}', "größer 😀 \u2028", "x" * 65_536, "\0null", "-1", "ü" * 40_000]
#: Seconds that a test may be ahead of what it compares.
SLACK = 5


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-to-{pair[1]}")
def pair(request: pytest.FixtureRequest, make_peer: MakePeer) -> tuple[Peer, Peer]:
    """A producer and a consumer."""
    producer, consumer = request.param
    return make_peer(producer), make_peer(consumer)


def must(value: Any) -> Any:
    assert value is not None
    return value


def test_a_queue_that_one_makes_is_the_others_too(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    one.create("q", vt=12, delay=3, maxsize=2048)
    assert other.names() == {"q"}
    seen = other.attributes("q")
    assert seen == one.attributes("q")
    assert abs(seen.pop("created") - time.time()) < SLACK
    assert abs(seen.pop("modified") - time.time()) < SLACK
    assert seen == {
        "vt": 12,
        "delay": 3,
        "maxsize": 2048,
        "totalrecv": 0,
        "totalsent": 0,
        "msgs": 0,
        "hiddenmsgs": 0,
    }
    with pytest.raises(PeerError, match="queueExists"):
        other.create("q")
    changed = other.change("q", vt=7, delay=0, maxsize=-1)
    assert (changed["vt"], changed["delay"], changed["maxsize"]) == (7, 0, -1)
    assert one.attributes("q") == changed
    other.drop("q")
    assert one.names() == set()


def test_the_defaults_are_the_same(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    one.create("q")
    found = other.attributes("q")
    assert (found["vt"], found["delay"]) == (30, 0)
    # PyRSMQ's default has two digits swapped; the others accept it as it is.
    assert found["maxsize"] == (65_565 if isinstance(one, Python) else 65_536)


def test_what_one_sends_the_other_receives_in_order_and_whole(pair: tuple[Peer, Peer]) -> None:
    producer, consumer = pair
    producer.create("q")
    ids = [producer.send("q", text) for text in TEXTS]
    got = [must(consumer.receive("q")) for _ in TEXTS]
    assert [each["message"] for each in got] == TEXTS
    assert [each["id"] for each in got] == ids
    assert {each["rc"] for each in got} == {1}
    assert all(abs(each["fr"] / 1000 - time.time()) < SLACK for each in got)
    assert consumer.receive("q") is None
    assert producer.receive("q") is None
    counts = producer.attributes("q")
    assert (counts["totalsent"], counts["totalrecv"]) == (len(TEXTS), len(TEXTS))
    assert (counts["msgs"], counts["hiddenmsgs"]) == (len(TEXTS), len(TEXTS))


def test_a_received_message_is_counted_and_deleted_by_either(pair: tuple[Peer, Peer]) -> None:
    producer, consumer = pair
    producer.create("q")
    id = producer.send("q", "m")
    first = must(consumer.receive("q", vt=60))
    assert producer.show("q", id, 0)
    second = must(producer.receive("q"))
    assert second == {**first, "rc": 2}
    assert consumer.show("q", id, 0)
    assert must(consumer.receive("q")) == {**first, "rc": 3}
    assert producer.delete("q", id)
    assert not consumer.delete("q", id)
    assert not consumer.show("q", id, 0)
    assert consumer.attributes("q")["totalrecv"] == 3
    assert consumer.attributes("q")["msgs"] == 0


def test_a_popped_message_is_gone_for_all(pair: tuple[Peer, Peer]) -> None:
    producer, consumer = pair
    producer.create("q")
    ids = [producer.send("q", text) for text in ("a", "b")]
    assert must(producer.receive("q", vt=0))["id"] == ids[0]
    popped = must(consumer.pop("q"))
    assert (popped["id"], popped["rc"]) in {(ids[0], 2), (ids[1], 1)}
    must(consumer.pop("q"))
    assert consumer.pop("q") is None
    assert producer.receive("q") is None
    assert producer.attributes("q")["totalrecv"] == 3


def test_a_delay_holds_for_all(pair: tuple[Peer, Peer], plain_client: redis.Redis) -> None:
    producer, consumer = pair
    producer.create("q", delay=100)
    producer.send("q", "by the queue")
    assert consumer.receive("q") is None
    assert consumer.attributes("q")["hiddenmsgs"] == 1
    sent_at = server_ms(plain_client)
    producer.send("q", "by the call", delay=1)
    got = must(wait_until(lambda: consumer.receive("q"), "the delayed message"))
    assert got["message"] == "by the call"
    assert got["fr"] >= sent_at + 1000
    assert consumer.receive("q") is None


def test_a_timeout_ends_for_all(pair: tuple[Peer, Peer], plain_client: redis.Redis) -> None:
    producer, consumer = pair
    producer.create("q", vt=1)
    producer.send("q", "m")
    first = must(consumer.receive("q"))
    again = must(wait_until(lambda: producer.receive("q", vt=60), "the timeout to end"))
    assert again == {**first, "rc": 2}
    assert server_ms(plain_client) >= first["fr"] + 1000


def test_both_leave_the_same_keys_behind(
    pair: tuple[Peer, Peer], plain_client: redis.Redis, token: str
) -> None:
    spaces = []
    for peer in pair:
        peer.create("q", maxsize=65_536)
        for text in ("one", "two"):
            peer.send("q", text)
        received = must(peer.receive("q"))["id"]
        spaces.append(shape(plain_client, token, received))
        peer.drop("q")
        assert plain_client.keys(f"{token}*") == []
    assert spaces[0] == spaces[1]


@pytest.mark.parametrize("roles", list(permutations(("ackq", "PyRSMQ", "rsmq"))))
def test_all_send_and_receive_on_one_queue_at_once(
    make_peer: MakePeer, roles: tuple[str, ...]
) -> None:
    count = 60
    make_peer(roles[0]).create("q")
    producers, consumers = ([make_peer(kind) for kind in roles] for _ in range(2))

    def produce(number: int) -> list[str]:
        return [producers[number].send("q", f"{number}:{n}") for n in range(count)]

    def consume(number: int) -> list[str]:
        got = []
        while len(seen) < 3 * count:
            message = consumers[number].receive("q", vt=600)
            if message is not None:
                got.append(message["message"])
                seen.append(message["id"])
                assert consumers[number].delete("q", message["id"])
        return got

    seen: list[str] = []
    with ThreadPoolExecutor(6) as pool:
        sent = [pool.submit(produce, number) for number in range(3)]
        taken = [pool.submit(consume, number) for number in range(3)]
        ids = [id for future in sent for id in future.result(30)]
        texts = [text for future in taken for text in future.result(30)]
    assert sorted(seen) == sorted(ids)
    assert sorted(texts) == sorted(f"{a}:{n}" for a in range(3) for n in range(count))
    counts = producers[0].attributes("q")
    assert (counts["totalsent"], counts["totalrecv"], counts["msgs"]) == (3 * count, 3 * count, 0)


def test_realtime_notices_are_the_originals(
    original: Node, url: str, token: str, plain_client: redis.Redis
) -> None:
    listener = plain_client.pubsub(ignore_subscribe_messages=True)
    theirs = JavaScript(original, url, token, realtime=True)
    with RSMQ.from_url(url, token, realtime=True) as ours:
        ours.create_queue("q")
        listener.subscribe(f"{token}:rt:q")
        wait_until(lambda: plain_client.pubsub_numsub(f"{token}:rt:q")[0][1], "to be heard")
        theirs.send("q", "1")
        ours.send_message("q", "2")
        theirs.send("q", "3", delay=60)
        ours.send_messages("q", ["4", "5"])
        theirs.send("q", "6")
        heard = [heard_by(listener) for _ in range(6)]
    theirs.close()
    listener.close()
    assert heard == [b"1", b"2", b"3", b"4", b"5", b"6"]


def heard_by(listener: Any) -> Any:
    return wait_until(lambda: listener.get_message(timeout=1), "a notice")["data"]


def test_batches_are_received_one_by_one_by_others(
    make_peer: MakePeer, url: str, token: str
) -> None:
    with RSMQ.from_url(url, token) as ours:
        ours.create_queue("q")
        texts = [f"{n}" for n in range(150)]
        ids = ours.send_messages("q", texts)
        assert ids == sorted(ids)
        theirs = [make_peer("PyRSMQ"), make_peer("rsmq")]
        got = [must(theirs[n % 2].receive("q")) for n in range(50)]
        got += [
            {"id": message.id, "message": message.message}
            for message in ours.receive_messages("q", 99)
        ]
        got.append(must(theirs[1].pop("q")))
        assert [each["message"] for each in got] == texts
        assert [each["id"] for each in got] == ids
        assert ours.delete_messages("q", ids) == 149


def test_attributes_of_other_ports_are_read(
    make_peer: MakePeer, url: str, token: str, plain_client: redis.Redis
) -> None:
    now_ms = server_ms(plain_client)
    plain_client.hset(
        f"{token}:q:Q",
        mapping={  # as the port in the article makes it
            "createdby": "ersin",
            "vt": 30,
            "delay": 0,
            "maxsize": 65536,
            "created": now_ms,
            "modified": now_ms,
        },
    )
    plain_client.sadd(f"{token}:QUEUES", "q")
    make_peer("PyRSMQ").change("q", vt=0.5, delay=0.25)  # type: ignore[arg-type]
    with RSMQ.from_url(url, token) as ours:
        found = ours.get_queue_attributes("q")
        assert (found.vt, found.delay) == (0.5, 0.25)
        assert found.created == now_ms // 1000
        ours.send_message("q", "m")
        assert ours.receive_message("q") is None
        first = must(ours.receive_message("q", timeout=5))
        again = must(ours.receive_message("q", timeout=5))
        assert 500 <= server_ms(plain_client) - first.fr < 4000
        assert (again.id, again.rc) == (first.id, 2)
        ours.set_queue_attributes("q", vt=9)
        assert plain_client.hget(f"{token}:q:Q", "vt") == b"9"


def server_ms(client: redis.Redis) -> int:
    seconds, microseconds = client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def shape(client: Any, token: str, received: str) -> Any:
    """Return every key with its type and fields; ids and times are replaced by their kind."""
    found: dict[str, Any] = {}
    for raw in client.keys(f"{token}*"):
        key = raw.decode().removeprefix(token)
        kind = client.type(raw).decode()
        assert client.ttl(raw) == -1
        if kind == "hash":
            fields = {name.decode(): value.decode() for name, value in client.hgetall(raw).items()}
            found[key] = sorted(
                (_named(name, received), "time" if _is_time(name) else value)
                for name, value in fields.items()
            )
        else:
            members = client.smembers(raw) if kind == "set" else client.zrange(raw, 0, -1)
            found[key] = kind, sorted(_named(member.decode(), received) for member in members)
    return found


def _named(name: str, received: str) -> str:
    id, colon, rest = name.partition(":")
    if len(id) != 32:
        return name
    return ("received" if id == received else "other") + colon + rest


def _is_time(name: str) -> bool:
    return name in ("created", "modified") or name.endswith(":fr")
