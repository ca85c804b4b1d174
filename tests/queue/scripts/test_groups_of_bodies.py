"""groups/pop and Python find the same group in whatever bytes lie on the list.

A worker handles messages of different groups side by side. So a group that the script alone sees
would be out of order.
"""

import random
from collections.abc import Iterable, Iterator

import pytest

from ackq.queue.group_names import MAX_READ, group_of, shown_name, tags_of
from tests.queue.scripts.grouped import FIELD, pop, record
from tests.queue.scripts.space import Space
from tests.queue.test_bad_bodies import CORPUS

LONG = b"x" * MAX_READ
#: The group of a body in which %b is the value of the member.
VALUES = {
    b"17": "17",
    b"-17": "-17",
    b"17.0": "17",
    b"1e2": "100",
    b"1E+2": "100",
    b"0.1e1": "1",
    b"-0": "0",
    b"-0.0": "0",
    b"1e-400": "0",
    b"0.99999999999999999999": "1",
    b"9007199254740991": "9007199254740991",
    b"9007199254740992": None,
    b"9007199254740993": None,
    b"1.5": None,
    b"1e400": None,
    b"9" * 5000: None,
    # No JSON, but Redis decodes it.
    b"017": "17",
    b"-017": "-17",
    b"+1": "1",
    b"+.5e1": "5",
    b"5.": "5",
    b"5.e1": "50",
    b"-.5e1": "-5",
    b"0x1f": "31",
    b"-0X1F": "-31",
    b"0x.8p1": "1",
    b"0x1p99999": None,
    b"0x1.8": None,
    b"nan": None,
    b"-NaN": None,
    b"nan(1)": None,
    b"Infinity": None,
    b"+inf": None,
    # Nobody decodes it.
    b".5": None,
    b"1 1": None,
    b"1+1": None,
    b"1_0": None,
    b"1e": None,
    b"0x": None,
    b"--1": None,
    b"infinit": None,
    # Texts.
    b'"17"': "17",
    b'"017"': "017",
    b'""': None,
    b'" "': " ",
    b'"\\u00fc"': "ü",
    '"ü"'.encode(): "ü",
    b'"%b"' % (b"g" * 512): "g" * 512,
    b'"%b"' % (b"g" * 513): "g" * 513,
    b'"\\n"': "\n",
    b'"\n\x01"': "\n\x01",
    b'"\\u0000"': "\0",
    b'"\0"': None,
    b'"\\\n"': None,
    b'"\\x"': None,
    b'"\\""': '"',
    b'"\xff"': "\ufffd",
    b'"\xed\xa0\x80"': "\ufffd" * 3,
    b'"\xe2\\u0082"': "\ufffd\x82",
    b'"\\ud83d\\ude00"': "\U0001f600",
    b'"\\ud800"': None,
    b'"\\udc00"': None,
    b'"\\ud800\\u0041"': None,
    b"'c'": None,
    b"true": None,
    b"null": None,
    b'["c"]': None,
    b'{"customer":"c"}': None,
}
BODIES = {
    **{b'{"id":"a","customer":%b}' % value: group for value, group in VALUES.items()},
    **{b'{"n":1,"customer":%b,"o":2}' % value: group for value, group in VALUES.items()},
    # What else is in the body.
    b'{"customer":"c","n":017}': "c",
    b'{"customer":"c","n":0x1f}': "c",
    b'{"customer":"c","n":NaN}': "c",
    b'{"customer":"c","n":[-inf,+1,nan(x)]}': "c",
    b'{"customer":"c","n":%b}' % (b"9" * 5000): "c",
    b'{"customer":"c","n":1e999}': "c",
    b'{"customer":"c","n":"017\n\\"NaN\\""}': "c",
    b'{"customer":"017\n"}': "017\n",
    b'{"customer":"c","n":"\\ud800"}': None,
    b'{"customer":"c","n":"\0"}': None,
    b'{"customer":"c",}': None,
    b'{"customer":"c","n":[1,]}': None,
    b'{"customer":"c"/**/}': None,
    b'{"customer":"c"}//': None,
    b'{"customer":"c"} x': None,
    b'{"customer":"c"}{}': None,
    b'{"customer":"c"}\0 x"': "c",
    b'{"customer":017}\0\0': "17",
    b'{"customer":"c"\0}': None,
    b'\xef\xbb\xbf{"customer":"c"}': None,
    '{"customer":"c"}'.encode("utf-16"): None,
    b' \t\r\n{ "customer"\n:\t"c" } ': "c",
    b'{\v"customer":"c"}': None,
    b'{"id":\v"a",\f"customer":\v"c"}': "c",
    # A body that begins with its id and the group is not decoded.
    b'{"id":"a","customer":"c"': "c",
    b'{"id":"a","customer":"c","n":\0': "c",
    b'{"id":"a","customer":17,': "17",
    b'{"id":"a","customer":17': None,
    b'{"id":"a","customer":"c","customer":"d"}': "c",
    b'{"n":1,"customer":"c","customer":"d"}': "d",
    b'{"n":1,"customer":"c","customer":null}': None,
    b'{"id":"%b","customer":"c"' % (b"a" * 1178): None,
    b'{"id":"%b","customer":"c"' % (b"a" * 1177): "c",
    b'{"id":7,"customer":17}': "17",
    b'{"n":1,"customer":"c","id":"m"}': "c",
    b'{"id":"a","customers":"c"}': None,
    b'{"id":"a","inner":{"customer":"c"}}': None,
    # Its name has to stand in the body as it is.
    b'{"custome\\u0072":"c"}': None,
    b'{"n":1,"id":"a","custome\\u0072":"c"}': None,
    b'{"custome\\u0072":"c","n":"customer"}': "c",
    b'{"n":"customer"}': None,
    b'{"n":"\\"customer\\":1","o":{"customer":"c"}}': None,
    b'[{"customer":"c"}]': None,
    b'"customer"': None,
    b"": None,
    # Depth and length.
    b'{"customer":"c","n":' + b"[" * 999 + b"]" * 999 + b"}": "c",
    b'{"customer":"c","n":' + b"[" * 999 + b"017" + b"]" * 999 + b"}": "c",
    b'{"customer":"c","n":"' + LONG[:-23] + b'"}': "c",
    b'{"customer":"c","n":"' + LONG[:-22] + b'"}': None,
    b'{"id":"a","n":1,"customer":"' + LONG[:-30] + b'"}': "x" * (MAX_READ - 30),
    b'{"n":"' + b'\\"' * 30_000 + b'","customer":017': None,
}
#: What changes a body into one that a decoder may read in another way.
PIECES = (
    *b'"\\{}[]:,+-.01xeE \n\0\1\v\x7f\xff/n',
    *(b"017", b"0x1f", b"NaN", b"inf", b"1e2", b"1e400", b"+1", b"-.5", b"null", b"true", b"'c'"),
    *(b'"customer"', b'"id"', b'"c"', b"\\u0063", b"\\ud800", b"\\udc00", b"\xc3\xbc", b"[" * 99),
)


def changed(draw: random.Random, body: bytes) -> bytes:
    """Return a body with one or two pieces put into it, or instead of some of its bytes."""
    for _ in range(draw.choice((1, 1, 2))):
        at, piece = draw.randint(0, len(body)), draw.choice(PIECES)
        put = bytes((piece,)) if isinstance(piece, int) else piece
        body = body[:at] + put + body[at + draw.choice((0, 0, 1, len(put))) :]
    return body


def found_by_the_script(
    space: Space, bodies: Iterable[bytes]
) -> Iterator[tuple[bytes, str | None]]:
    """Pop these bodies, and yield each with the group that the script found."""
    record(space, 1_000_000)
    for body in bodies:
        space.push(body)
    while (popped := pop(space, 1000)).status != "empty":
        slots = space.client.hmget(space.key("GROUPS:FLIGHT"), b"", *popped.keys)[1:]
        for body, slot in zip(popped.bodies, slots, strict=True):
            yield body, slot and shown_name(slot[17:])


def as_shown(group: str | None) -> str | None:
    return group and shown_name(tags_of(group)[0])


def test_the_script_and_python_find_the_same_group(space: Space) -> None:
    expected = {body: as_shown(group) for body, group in BODIES.items()}
    assert {body: as_shown(group_of(body, FIELD)) for body in BODIES} == expected
    assert dict(found_by_the_script(space, BODIES)) == expected


@pytest.mark.parametrize("seed", range(2))
def test_whatever_has_a_group_for_the_script_has_it_in_python(space: Space, seed: int) -> None:
    draw = random.Random(seed)
    renamed = (body.replace(b'"id"', b'"customer"') for body in CORPUS)
    origins = [each for each in (*BODIES, *renamed) if len(each) < 400 and group_of(each, FIELD)]
    bodies = {changed(draw, draw.choice(origins)) for _ in range(3000)}
    found = dict(found_by_the_script(space, bodies))
    assert found.keys() == bodies
    assert sum(group is not None for group in found.values()) > 200
    for body, group in found.items():
        assert as_shown(group_of(body, FIELD)) == group, body
