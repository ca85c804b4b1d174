"""Whatever bytes lie on the list are delivered, protected and given back unchanged.

The corpus of 164 begins with the 46 bodies on which the script of the article was measured: it
lost 23 of them for good, and delivered others for ever because no ack could match. Here none may
be lost, none may wedge the queue, and every one must live through each way in which a message
travels.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ackq
from ackq import Queue
from ackq.core.ids import usable_id
from ackq.queue.keys import QueueKeys
from tests.facade import AsSync, Portal
from tests.servers import Fleet, Survey

MIB = 1024 * 1024
DEEP = (999, 1000, 1001, 100_000)

MEASURED = [
    # What the article's script lost.
    b"not json",
    b"",
    b"{}",
    b"[]",
    b"[1,2]",
    b"42",
    b'"abc"',
    b"null",
    b"true",
    b'{"x":1}',
    b'{"id":null}',
    b'{"id":true}',
    b'{"id":false}',
    b'{"id":{}}',
    b'{"id":[1]}',
    b'{"id":"a","x":' + b"[" * 1001 + b"]" * 1001 + b"}",
    b"\0",
    b'{"id":"a\0b"}',
    b'{"id":"\\ud800"}',
    b'\xef\xbb\xbf{"id":"a"}',
    b'{"id":"a"} trailing',
    b'{"id":"a",}',
    b"{'id':'a'}",
    # What no ack matched, or shared a key with another.
    b'{"id":12345678901234567890}',
    b'{"id":9007199254740993}',
    b'{"id":9007199254740992}',
    b'{"id":1.0}',
    b'{"id":1}',
    b'{"id":"1"}',
    b'{"id":1.5}',
    b'{"id":-0}',
    b'{"id":1e3}',
    b'{"id":1e400}',
    b'{"id":""}',
    b'{"id":" "}',
    # What cjson accepts and Python refuses.
    b'{"id":"b","x":' + b"[" * 999 + b"]" * 999 + b"}",
    b'{"id":"c","x":' + b"[" * 1000 + b"]" * 1000 + b"}",
    b'{"id":"d","x":' + b"9" * 4301 + b"}",
    b'{"id":"e","x":"\x01\n\t"}',
    b'{"id":"f\xff\xfe","x":"\xc3\x28"}',
    b'{"id":"g","x":nan}',
    b'{"id":nan}',
    b'{"id":0x10}',
    b'{"id":"h","x":01}',
    b'{"id":"i","x":+1}',
    b'{"id":"j","x":Infinity}',
]

MORE = [
    # Ids of every kind, with the number and the text of the same digits.
    *(
        b'{"id":%s}' % each
        for each in (
            b"0",
            b"-1",
            b"9007199254740991",
            b"-9007199254740991",
            b"-9007199254740992",
            b"18446744073709551616",
            b"1E3",
            b"1.0e0",
            b"-1.5",
            b"1e-400",
            b"0.1",
            b"-inf",
            b"01",
            b'"0"',
            b'"-0"',
            b'"1.0"',
            b'"1e3"',
            b'"null"',
            b'"\\u0000"',
            b'"\\u0000a"',
            b'"a\\u0000"',
            b'"a\\"b"',
            b'"a\\\\"',
            b'"\\n"',
            b'"\\r\\n"',
            b'"\\/"',
            b'"\\ud83d\\ude00"',
            b'"\\udc00"',
            b'"\xf0\x9f\x98\x80"',
            b'"\xed\xa0\x80"',
            b'"\xc0\x80"',
            b'"\x7f"',
            b'"\\x41"',
            b'"*?[]"',
        )
    ),
    *(b'{"x":1,"id":"' + b"a" * size + b'"}' for size in (511, 512, 513)),
    *(b'{"id":"' + b"a" * size + b'"}' for size in (511, 512, 513, 100_000)),
    b'{"id":"' + b"\xc3\xa9" * 256 + b'"}',
    b'{"id":"' + b"\xc3\xa9" * 257 + b'"}',
    # The name of the id.
    b'{"id":"k","id":"l"}',
    b'{"x":0,"id":"k","id":"l"}',
    b'{"id":"k","id":null}',
    b'{"\\u0069d":"m"}',
    b'{"x":"\\"id\\"","id":"n"}',
    b'{"ID":"o"}',
    b'{"id ":"p"}',
    b'{"x":{"id":"q"}}',
    b'[{"id":"r"}]',
    b'{"id":"s"}{"id":"t"}',
    b'{"id":"u"',
    b'{"x":1,"id":"u"} trailing',
    b'{"x":1,"id":"u",}',
    b'["id","u"]',
    b'{"id":"\xff"}',
    b'{"id":',
    b'{"id"',
    b'"id"',
    b"id",
    b'{"id":"v',
    b'{"id":"w\\',
    b"{id:1}",
    b'{"id";1}',
    b' {"id":"x"}',
    b'\n{"id":"x"}\n',
    b'{"id" :"x"}',
    b'{"id":\t"x"}',
    b'{"id":  "x"}',
    # Depth.
    *(b"[" * depth + b"]" * depth for depth in DEEP),
    *(b'{"id":' * depth + b"1" + b"}" * depth for depth in DEEP),
    *(b'{"id":"deep","x":' + b"[" * depth for depth in DEEP),
    *(b'{"x":' + b"[" * depth + b"]" * depth + b',"id":"deep"}' for depth in DEEP),
    # Length: what must not be decoded, and what would take long.
    b'{"id":"long","x":"' + b"x" * 65_536 + b'"}',
    b'{"x":"' + b"x" * 65_500 + b'","id":"long"}',
    b'{"x":"' + b"x" * 65_536 + b'","id":"long"}',
    (b'{"x":[' + b"[]," * MIB)[: MIB - 12] + b'[]],"id":1}',
    (b'{"id":1,"x":[' + b"[]," * MIB)[: MIB - 4] + b"[]]}",
    b"\0" * MIB,
    b"[" * MIB,
    b'"' + b"\\u0000" * 10_000 + b'"',
    b'{"id":' + b"9" * 60_000 + b"}",
    # Other encodings, other protocols.
    json.dumps({"id": "a"}).encode("utf-16"),
    json.dumps({"id": "a"}).encode("utf-32"),
    b"\xff",
    b"\xfe\xff",
    bytes(range(256)),
    b"\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"-ERR\r\n",
    b"$-1\r\n",
    b"\x80\x04\x95",
    b"\x1f\x8b\x08",
    b"<id>1</id>",
    b"id: 1\n",
    b"False",
    b"NaN",
    b"0",
    b"-0",
    b"1e400",
    b" ",
    b"\t",
    b"\x00\x00\x001700000000000000:0001",
    b'{"id":"\\u00001700000000000000:0001"}',
]

CORPUS = MEASURED + MORE
#: The keys of bodies that scripts read otherwise than Python does. None: it is derived.
BY_SCRIPTS = {
    b'{"id":"f\xff\xfe","x":"\xc3\x28"}': b"f\xff\xfe",
    b'{"id":0x10}': b"16",
    b'{"id":01}': b"1",
    b'{"id":"\xed\xa0\x80"}': b"\xed\xa0\x80",
    b'{"id":"\xc0\x80"}': b"\xc0\x80",
    b'{"id":"\xff"}': b"\xff",
    b'{"\\u0069d":"m"}': None,
    **{b'{"x":' + b"[" * depth + b"]" * depth + b',"id":"deep"}': None for depth in DEEP[1:]},
    b'{"x":"' + b"x" * 65_536 + b'","id":"long"}': None,
    (b'{"id":1,"x":[' + b"[]," * MIB)[: MIB - 4] + b"[]]}": b"1",
}

QueueMaker = Callable[..., Any]


@pytest.fixture(params=["oldest", "debian"])
def kind(request: pytest.FixtureRequest, survey: Survey) -> str:
    """The oldest server that ackq supports, and the one on PATH."""
    if request.param not in survey.offers:
        pytest.skip(f"the run has no {request.param}")
    return str(request.param)


@pytest.fixture
def server(kind: str, fleet: Fleet) -> Any:
    """The server."""
    return fleet.get(kind)


@pytest.fixture
def flavour(kind: str) -> str:
    """Each server has one: what becomes of a body, no client decides."""
    return {"oldest": "sync", "debian": "async"}[kind]


@pytest.fixture
def producer(server: Any) -> Any:
    """A client that knows nothing of ackq."""
    return server.control


@pytest.fixture
def make_queue(server: Any, flavour: str, portal: Portal, name: str) -> Iterator[QueueMaker]:
    """``make_queue(**settings)``: the test's queue in its flavour."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Any:
            if flavour == "sync":
                client = stack.enter_context(server.make_client())
                queue: Any = ackq.Queue(client, name, **settings)
            else:
                client = portal.call(server.make_async_client)
                stack.callback(portal.call, client.aclose)
                queue = AsSync(portal, portal.call(ackq.AsyncQueue, client, name, **settings))
            stack.callback(queue.close)
            return queue

        yield make


def push(producer: Any, name: str, bodies: Iterable[bytes] = CORPUS) -> None:
    """Push as any producer does, first come first served."""
    with producer.pipeline(transaction=False) as pipeline:
        for body in bodies:
            pipeline.lpush(name, body)
        pipeline.execute()


def expire(producer: Any, name: str) -> None:
    """Let every lease end and every delay be over, without waiting."""
    keys = QueueKeys.of(name)
    for zset in (keys.backup, keys.delayed):
        if ended := dict.fromkeys(producer.zrange(zset, 0, -1), 1):
            producer.zadd(zset, ended, xx=True)


def take_all(queue: Queue, size: int = 50) -> list[Any]:
    """Take until nothing is ready."""
    taken: list[Any] = []
    while batch := queue.pop_many(size):
        taken += batch
    return taken


def bodies_of(messages: Iterable[Any]) -> Counter[bytes]:
    return Counter(message.body for message in messages)


def left_over(producer: Any, name: str) -> list[bytes]:
    """Return the keys of the queue that still exist."""
    found: list[bytes] = producer.keys(f"{name}*")
    return found


def test_the_corpus_holds_what_was_measured() -> None:
    assert (len(MEASURED), len(CORPUS)) == (46, 164)
    assert max(map(len, CORPUS)) == MIB
    assert len(set(CORPUS)) == len(CORPUS)


def test_one_by_one_every_body_is_delivered_and_acked(queue: Any, producer: Any, name: str) -> None:
    for body in CORPUS:
        producer.lpush(name, body)
        message = queue.pop()
        assert message.body == body
        assert message.receive_count == 1
        by_python = usable_id(body)
        key = BY_SCRIPTS.get(body, by_python.encode() if by_python is not None else None)
        derived = re.fullmatch(rb"\0\d{16}:0001", message.key)
        assert message.key == key or (derived and key is None), body[:80]
        assert queue.ack(message) == 1
        assert left_over(producer, name) == [], body[:80]


def test_acked_in_the_next_pop_none_is_lost_or_delivered_twice(
    make_queue: QueueMaker, producer: Queue, name: str
) -> None:
    push(producer, name)
    queue = make_queue()
    seen = []
    message = queue.pop()
    while message is not None:
        seen.append(message.body)
        message = queue.pop(ack=message)
    assert seen == CORPUS
    assert left_over(producer, name) == []


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_in_batches_all_are_in_flight_at_once_each_under_a_key_of_its_own(
    make_queue: QueueMaker, producer: Queue, name: str, size: int
) -> None:
    push(producer, name)
    queue = make_queue()
    taken = take_all(queue, size)
    assert [message.body for message in taken] == CORPUS
    assert len({message.key for message in taken}) == len(CORPUS)
    assert queue.stats().in_flight == len(CORPUS)
    assert queue.audit().findings == ()
    assert queue.ack(*taken) == len(CORPUS)
    assert left_over(producer, name) == []


def test_every_body_lives_through_nack_extension_expiry_and_release(
    make_queue: QueueMaker, producer: Queue, name: str
) -> None:
    push(producer, name)
    queue = make_queue()
    taken = take_all(queue)
    keys = {message.key: message.body for message in taken}
    assert queue.nack(*taken, delay=0) == len(CORPUS)
    taken = take_all(queue)
    assert {message.receive_count for message in taken} == {2}
    assert queue.extend(*taken) == len(CORPUS)
    assert queue.extend(*taken) == len(CORPUS)
    stale = taken
    expire(producer, name)
    taken = take_all(queue)
    assert {message.receive_count for message in taken} == {3}
    assert queue.release(*taken) == len(CORPUS)
    taken = take_all(queue)
    assert {message.receive_count for message in taken} == {3}
    assert {message.key: message.body for message in taken} == keys
    with pytest.raises(ackq.LeaseLost) as refused:
        queue.ack(*stale)
    assert len(refused.value.messages) == len(CORPUS)
    assert queue.ack(*taken) == len(CORPUS)
    assert left_over(producer, name) == []


def test_every_body_lives_through_a_requeue_to_the_back(
    make_queue: QueueMaker, producer: Queue, name: str
) -> None:
    push(producer, name)
    queue = make_queue(requeue="back")
    taken = take_all(queue)
    expire(producer, name)
    taken = take_all(queue)
    assert bodies_of(taken) == Counter(CORPUS)
    assert queue.nack(*taken) == len(CORPUS)
    taken = take_all(queue)
    assert bodies_of(taken) == Counter(CORPUS)
    assert queue.ack(*taken) == len(CORPUS)
    assert left_over(producer, name) == []


def test_every_body_dies_and_is_redriven_unchanged(
    make_queue: QueueMaker, producer: Queue, name: str
) -> None:
    push(producer, name)
    queue = make_queue(max_receives=2)
    for count in (1, 2):
        taken = take_all(queue)
        assert bodies_of(taken) == Counter(CORPUS)
        assert {message.receive_count for message in taken} == {count}
        expire(producer, name)
    assert take_all(queue) == []
    letters = queue.dead_letters(1000)
    assert bodies_of(letters) == Counter(CORPUS)
    assert {(letter.reason, letter.receive_count) for letter in letters} == {("max receives", 2)}
    assert all(isinstance(letter.id, str) and letter.id for letter in letters)
    assert queue.redrive() == len(CORPUS)
    taken = take_all(queue)
    assert bodies_of(taken) == Counter(CORPUS)
    assert queue.ack(*taken) == len(CORPUS)
    assert queue.stats().dead == 0


def test_every_body_can_be_rejected(make_queue: QueueMaker, producer: Queue, name: str) -> None:
    push(producer, name)
    queue = make_queue()
    assert queue.reject(*take_all(queue), reason="unreadable") == len(CORPUS)
    assert bodies_of(queue.dead_letters(1000)) == Counter(CORPUS)


def test_every_body_can_be_scheduled_and_peeked_at(queue: Any, producer: Queue, name: str) -> None:
    queue.push_many(CORPUS, delay=3600)
    assert bodies_of(queue.peek(1000, "delayed")) == Counter(CORPUS)
    expire(producer, name)
    assert bodies_of(queue.peek(1000)) == Counter(CORPUS)
    taken = take_all(queue)
    assert bodies_of(queue.peek(1000, "in_flight")) == Counter(CORPUS)
    assert bodies_of(taken) == Counter(CORPUS)
    assert {message.receive_count for message in taken} == {1}
    assert queue.ack(*taken) == len(CORPUS)


def test_every_body_can_be_drained_back_to_the_list(
    make_queue: QueueMaker, producer: Any, name: str
) -> None:
    push(producer, name)
    queue = make_queue()
    taken = take_all(queue)
    queue.nack(*taken[::2], delay=3600)
    assert queue.drain() == len(CORPUS)
    assert Counter(producer.lrange(name, 0, -1)) == Counter(CORPUS)
    assert left_over(producer, name) == [name.encode()]


def test_equal_bodies_in_flight_are_as_many_messages(
    make_queue: QueueMaker, producer: Queue, name: str
) -> None:
    for _ in range(3):
        push(producer, name)
    queue = make_queue()
    taken = take_all(queue)
    assert len({message.key for message in taken}) == 3 * len(CORPUS)
    first, others = taken[: len(CORPUS)], taken[len(CORPUS) :]
    assert queue.ack(*first) == len(first)
    expire(producer, name)
    again = take_all(queue)
    assert bodies_of(again) == bodies_of(others)
    assert queue.ack(*again) == len(others)
    assert left_over(producer, name) == []


def test_too_large_bodies_die_unread_and_delay_no_other(
    make_queue: QueueMaker, producer: Queue, name: str
) -> None:
    push(producer, name)
    queue = make_queue(max_body_bytes=100)
    taken = take_all(queue)
    assert [message.body for message in taken] == [body for body in CORPUS if len(body) <= 100]
    letters = queue.dead_letters(1000)
    assert [letter.body for letter in letters] == [body for body in CORPUS if len(body) > 100]
    assert {(letter.reason, letter.receive_count) for letter in letters} == {("too large", 0)}


def test_a_body_that_would_take_seconds_to_decode_is_delivered_undecoded(
    make_queue: QueueMaker, producer: Queue, name: str
) -> None:
    body = b'{"x":[' + b"[]," * (8 * MIB // 3) + b'[]],"id":"last"}'
    push(producer, name, [body])
    message = make_queue(max_body_bytes=16 * MIB).pop()
    assert message.body == body
    assert message.key.startswith(b"\0")  # had it been decoded, this were its id


# What a user calls the message.

DERIVED = r"\d{16}:\d{4}"


IDS = [
    (b'{"id":"a"}', "a"),
    (b'{"id":7}', "7"),
    (b'{"id":1.0}', "1"),
    (b'{"id":9007199254740991}', "9007199254740991"),
    (b'{"id":9007199254740993}', DERIVED),
    (b'{"id":"\\ud83d\\ude00"}', "\U0001f600"),
    (b'{"id":"a\\"b\\\\"}', r'a"b\\'),
    (b'{"\\u0069d":"a"}', "a"),
    (b'{"x":"' + b"x" * 70_000 + b'","id":"a"}', "a"),
    (b'{"id":"\xff"}', "\ufffd"),
    (b'{"id":"' + b"a" * 512 + b'"}', "a{512}"),
    (b'{"id":"' + b"a" * 513 + b'"}', DERIVED),
    (b'{"id":"\\u0000a"}', DERIVED),
    (b'{"id":null}', DERIVED),
    (b"not json", DERIVED),
    (b"", DERIVED),
]


def test_the_id_is_what_the_body_says_or_else_the_key(
    queue: Any, producer: Queue, name: str
) -> None:
    for body, id in IDS:
        push(producer, name, [body])
        message = queue.pop()
        assert re.fullmatch(id, message.id), body
        assert repr(message.id) in repr(message)
        queue.reject(message)
        [letter] = queue.dead_letters()
        assert letter.id == message.id
        queue.purge(dead=True)


def test_two_messages_with_one_id_are_both_called_by_it(
    make_queue: QueueMaker, producer: Queue, name: str
) -> None:
    push(producer, name, [b'{"id":"a","n":1}', b'{"id":"a","n":2}'])
    first, second = make_queue().pop_many(2)
    assert (first.id, second.id) == ("a", "a")
    assert first.key != second.key


# Random bodies.

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text()
    | st.sampled_from(["", "a", "1", "\0", "\0a", "\ud800", 2**53 - 1, 2**53, -(2**53), 1e3])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
OBJECTS = st.dictionaries(st.sampled_from(["id", "x", "ID"]) | st.text(), VALUES, max_size=4)


@st.composite
def json_bodies(draw: st.DrawFn) -> bytes:
    """Draw JSON in a form that some producer writes, sometimes with a broken byte."""
    text = json.dumps(
        draw(OBJECTS | VALUES),
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")])),
    )
    body = text.encode(errors="surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=2)) + body[at + draw(st.integers(0, 2)) :]
    return body


ALONE = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]
BODIES = st.lists(st.binary(max_size=40) | json_bodies(), max_size=12)


@given(bodies=BODIES, size=st.integers(1, 5), acked=st.sets(st.integers(0, 11)))
@settings(max_examples=50, database=None, suppress_health_check=ALONE)
def test_any_bytes_come_back_as_they_were_until_they_are_acked(
    plain_client: Any, name: str, bodies: list[bytes], size: int, acked: set[int]
) -> None:
    with ackq.Queue(plain_client, name) as queue:
        queue.purge(dead=True)
        push(plain_client, name, bodies)
        taken = take_all(queue, size)
        assert [message.body for message in taken] == bodies
        assert all(message.id and message.receive_count == 1 for message in taken)
        done = [message for at, message in enumerate(taken) if at in acked]
        assert queue.ack(*done) == len(done)
        expire(plain_client, name)
        again = take_all(queue, size)
        assert bodies_of(again) == bodies_of(taken) - bodies_of(done)
        assert {message.receive_count for message in again} <= {2}
        assert queue.audit().findings == ()
        assert queue.ack(*again) == len(again)
        assert left_over(plain_client, name) == []


@given(body=json_bodies())
@settings(max_examples=100, database=None, suppress_health_check=ALONE)
def test_python_and_lua_agree_on_the_id_of_a_json_object(
    plain_client: Any, name: str, body: bytes
) -> None:
    with ackq.Queue(plain_client, name) as queue:
        queue.purge()
        push(plain_client, name, [body])
        message = queue.pop()
        assert message is not None
        by_python = usable_id(body)
        if by_python is not None:
            assert message.key == by_python.encode()
        if not message.key.startswith(b"\0"):
            assert message.id == message.key.decode(errors="replace")
