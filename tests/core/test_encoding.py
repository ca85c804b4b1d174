"""What becomes of each kind of message, and the words of each refusal. No server."""

import enum
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

import pydantic
import pytest

from ackq.core.encode import encode, encode_many
from ackq.core.io.outside import SYSTEM
from ackq.core.json_values import to_json
from ackq.core.observation import Members, adding
from ackq.errors import InvalidMessage, MessageTooLarge
from tests.outside import FIXED

NUL = math.nan
LOOP: list[Any] = []
LOOP.append(LOOP)


@dataclass
class Point:
    id: str
    x: float | None = None


@dataclass(slots=True)
class Inner:
    y: Any
    _private: float = math.inf


class Pair(NamedTuple):
    left: int
    right: int


class Colour(enum.Enum):
    RED = math.inf
    BLUE = "blue"


KEPT: list[tuple[Any, str, bytes]] = [
    ({"id": "x", "a": 1}, "x", b'{"id":"x","a":1}'),
    ({"a": 1, "id": "x"}, "x", b'{"id":"x","a":1}'),
    ({"id": 7}, "7", b'{"id":7}'),
    ({"a": 1, "id": 7.0}, "7", b'{"id":7.0,"a":1}'),
    (MappingProxyType({"id": "x"}), "x", b'{"id":"x"}'),
    (Point("x", 0.5), "x", b'{"id":"x","x":0.5}'),
    (Point("x"), "x", b'{"id":"x","x":null}'),
    ({"id": "x", "c": Colour.BLUE}, "x", b'{"id":"x","c":"blue"}'),
    ({"id": "x", "p": Inner(None)}, "x", b'{"id":"x","p":{"y":null}}'),
    ({"id": "null"}, "null", b'{"id":"null"}'),
    (b'{"id":"x"}', "x", b'{"id":"x"}'),
    (bytearray(b"null"), "", b"null"),
    (memoryview(b""), "", b""),
]


def test_each_kind_of_message_one_by_one_and_together() -> None:
    for message, id, body in KEPT:
        assert encode(message, 100, SYSTEM) == (id, body)
        assert encode_many([message] * 65, 100, SYSTEM) == ([id] * 65, [body] * 65)
    mixed = [each[0] for each in KEPT]
    assert encode_many(iter(mixed), 100, SYSTEM) == tuple(map(list, zip(*KEPT, strict=True)))[1:]
    assert encode_many([], 100, SYSTEM) == ([], [])


def test_a_message_without_an_id_gets_one_of_sixteen_characters() -> None:
    ids = [encode({}, 100, SYSTEM)[0] for _ in range(3)]
    many, bodies = encode_many([{} for _ in range(200)], 100, SYSTEM)
    assert len({*ids, *many}) == 203
    for id, body in zip(many, bodies, strict=True):
        assert re.fullmatch(r"[\w-]{16}", id, re.ASCII)
        assert body == b'{"id":"%s"}' % id.encode()
    assert encode({"a": [1]}, 100, SYSTEM)[1][24:] == b',"a":[1]}'


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            [{"value": 1}],
            "a message is a mapping, a record or bytes, not list: wrap the value, as in"
            " {'value': ...}, or encode it yourself",
        ),
        (
            Point,
            "a message is a mapping, a record or bytes, not type: wrap the value, as in"
            " {'value': ...}, or encode it yourself",
        ),
        (
            {"id": ""},
            "id '' is invalid: it must be a non-empty string of at most 512 bytes or an integer"
            " below 2**53. Without an id, ackq draws one",
        ),
        (
            {"id": "x", "a": 1j},
            "message 'x' cannot be JSON: $.a is of type complex: push text, as in str(value)",
        ),
        (
            {"id": "x", "a": [{"tags": {1}}]},
            "message 'x' cannot be JSON: $.a[0].tags is of type set: push a list, as in"
            " sorted(value)",
        ),
        (
            {"id": "x", "price": Decimal("1.5")},
            "message 'x' cannot be JSON: $.price is of type Decimal: push text, as in str(value),"
            " which keeps every digit",
        ),
        (
            {"id": "x", "picture": b"x"},
            "message 'x' cannot be JSON: $.picture is of type bytes: push text: value.decode(), or"
            " Base64 for binary data",
        ),
        (
            {"id": "x", "counts": {1: 2}},
            "message 'x' cannot be JSON: $.counts has the name 1: names are text, as in"
            " {str(name): value}",
        ),
        (
            {"id": "x", "big": [2**64]},
            "message 'x' cannot be JSON: $.big[0] is of type int: it needs more than 64 bits, so"
            " push text, as in str(value)",
        ),
        (
            {"id": "x", "a": (1, Pair(1, 2))},
            "message 'x' cannot be JSON: $.a[1] is of type Pair: push a list or a dict, as in"
            " list(value)",
        ),
        (
            {"id": "x", "loop": LOOP},
            "message 'x' cannot be JSON: Recursion limit reached",
        ),
        (
            {"id": "x", "at": object},
            "message 'x' cannot be JSON: $.at is of type type: push text, a number, a list or a"
            " dict instead",
        ),
        (
            {"id": "x", "a": [0, {"b c": NUL}]},
            "message 'x' cannot be JSON: $.a[1]['b c'] is nan, and JSON has no such number: push"
            " None or a string instead",
        ),
        (
            {"id": "x", "c": Colour.RED},
            "message 'x' cannot be JSON: $.c is inf, and JSON has no such number: push None or a"
            " string instead",
        ),
        (
            {"id": "x", "n": (1, Inner([Inner(-math.inf)]))},
            "message 'x' cannot be JSON: $.n[1].y[0].y is -inf, and JSON has no such number: push"
            " None or a string instead",
        ),
        (
            Point("x", NUL),
            "message 'x' cannot be JSON: $.x is nan, and JSON has no such number: push None or a"
            " string instead",
        ),
    ],
)
def test_what_cannot_be_a_message_is_refused_with_the_reason(message: Any, text: str) -> None:
    with pytest.raises(InvalidMessage) as one:
        encode(message, 100, SYSTEM)
    with pytest.raises(InvalidMessage) as many:
        encode_many([{"id": "first"}, {"id": "n", "x": None}, message, {"id": "z"}], 100, SYSTEM)
    assert (str(one.value), str(many.value)) == (text, f"messages[2]: {text}")


class Parcel(pydantic.BaseModel):
    size: float


class Order(pydantic.BaseModel):
    id: str
    at: datetime
    parcel: Parcel


def test_models_of_pydantic_are_messages_and_may_be_within_messages() -> None:
    model = Order(id="o-1", at=datetime(2026, 1, 2, tzinfo=UTC), parcel=Parcel(size=1.5))
    body = b'{"id":"o-1","at":"2026-01-02T00:00:00Z","parcel":{"size":1.5}}'
    assert encode(model, 100, SYSTEM) == ("o-1", body)
    assert encode_many([model, b"x"], 100, SYSTEM) == (["o-1", ""], [body, b"x"])
    assert Order.model_validate_json(body) == model
    assert encode({"id": "n", "order": [model]}, 100, SYSTEM)[1] == (
        b'{"id":"n","order":[%b]}' % body
    )
    for message in (Parcel(size=NUL), {"id": "n", "size": Parcel(size=NUL)}):
        with pytest.raises(InvalidMessage, match="size is nan, and JSON has no such number"):
            encode(message, 100, SYSTEM)


def test_structs_of_msgspec_are_messages_and_may_be_within_messages() -> None:
    msgspec = pytest.importorskip("msgspec", reason="it has no wheel for this platform")
    order = msgspec.defstruct("order", [("id", str), ("price", Decimal)])("o-2", Decimal("1.50"))
    body = b'{"id":"o-2","price":"1.50"}'
    assert encode(order, 100, SYSTEM) == ("o-2", body)
    assert encode({"id": "n", "order": order}, 100, SYSTEM)[1] == b'{"id":"n","order":%b}' % body
    assert msgspec.json.decode(body, type=type(order)) == order


@pytest.mark.parametrize(
    "one", [{"id": "a"}, b"body", "text", Point("a", 1), Parcel(size=1)], ids=repr
)
def test_one_message_is_not_taken_for_several(one: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"push_many takes several messages, not one \w+"):
        encode_many(one, 100, SYSTEM)


def test_a_message_may_be_as_long_as_the_limit() -> None:
    text = (
        "message {!r} is 11 bytes, over the limit of 10: store the content elsewhere and push a"
        " reference, or raise max_body_bytes on producers and consumers"
    )
    for message, id in (({"id": "x"}, "x"), (b'{"id":"x"} ', "x"), (b"x" * 11, "")):
        size = 10 if isinstance(message, dict) else 11
        assert len(encode(message, size, SYSTEM)[1]) == size
        assert len(encode_many([b"y", message], size, SYSTEM)[1]) == 2
        if size == 11:
            with pytest.raises(MessageTooLarge) as raised:
                encode(message, 10, SYSTEM)
            assert str(raised.value) == text.format(id)
            with pytest.raises(MessageTooLarge) as raised:
                encode_many([b"y", message], 10, SYSTEM)
            assert str(raised.value) == f"messages[1]: {text.format(id)}"
    with pytest.raises(MessageTooLarge) as raised:
        encode_many([{"id": "a"}, {"id": "ab"}], 10, SYSTEM)
    assert str(raised.value) == f"messages[1]: {text.format('ab')}"


def test_members_are_added_to_mappings_that_lack_them_and_have_room() -> None:
    body = b'{"id":"x"}'
    with_time = b'{"id":"x","at":"NOW"}'
    cases: list[tuple[Any, int, bytes]] = [
        ({"id": "x"}, 100, with_time),
        ({"id": "x"}, 21, with_time),
        ({"id": "x"}, 20, body),
        ({"id": "x", "at": 1}, 100, b'{"id":"x","at":1}'),
        (body, 100, body),
        (Point("x"), 100, b'{"id":"x","x":null,"at":"NOW"}'),
    ]
    for message, limit, found in cases:
        assert encode(message, limit, FIXED, "at") == ("x", found)
        assert encode_many([message], limit, FIXED, "at") == (["x"], [found])
    with adding(Members(("t", "u"), b'"t":1,"u":2')):
        for time_field, found in (
            (None, b'{"id":"x","t":1,"u":2}'),
            ("at", b'{"id":"x","t":1,"u":2,"at":"NOW"}'),
        ):
            assert encode({"id": "x"}, 100, FIXED, time_field) == ("x", found)
            assert encode_many([{"id": "x"}, b"y"], 100, FIXED, time_field)[1] == [found, b"y"]
        assert encode({"id": "x", "u": 5}, 100, FIXED) == ("x", b'{"id":"x","u":5}')
    assert Members(("t",), b'"t":1').added_to(b"{}", {}, 7) == b'{"t":1}'
    assert Members(("t",), b'"t":1').added_to(b"{}", {}, 6) == b"{}"


def test_any_value_as_json() -> None:
    assert to_json([None, "null", {"a": 1}]) == b'[null,"null",{"a":1}]'
    with pytest.raises(TypeError, match=re.escape("$[1] is nan, and JSON has no such number")):
        to_json([0, NUL])
    with pytest.raises(TypeError, match=re.escape("$ is inf, and")):
        to_json(math.inf)
