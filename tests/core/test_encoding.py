"""What becomes of each kind of message, and the words of each refusal. No server."""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from ackq.core.encode import encode, encode_many, to_json
from ackq.core.io.outside import SYSTEM
from ackq.core.observing import Members, adding
from ackq.errors import InvalidMessage, MessageTooLarge
from tests.outside import FIXED

NUL = math.nan


@dataclass
class Point:
    id: str
    x: float | None = None


@dataclass(slots=True)
class Inner:
    y: Any
    _private: float = math.inf


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
            "push takes a mapping or bytes, not list: wrap the value, as in {'value': ...}, or"
            " encode it yourself",
        ),
        (
            Point,
            "push takes a mapping or bytes, not type: wrap the value, as in {'value': ...}, or"
            " encode it yourself",
        ),
        (
            {"id": ""},
            "id '' is invalid: it must be a non-empty string of at most 512 bytes or an integer"
            " below 2**53. Without an id, ackq draws one",
        ),
        (
            {"id": "x", "a": 1j},
            "message 'x' cannot be JSON: Type is not JSON serializable: complex",
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
    assert (str(one.value), str(many.value)) == (text, text)


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
            assert str(raised.value) == text.format(id)
    with pytest.raises(MessageTooLarge) as raised:
        encode_many([{"id": "a"}, {"id": "ab"}], 10, SYSTEM)
    assert str(raised.value) == text.format("ab")


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
