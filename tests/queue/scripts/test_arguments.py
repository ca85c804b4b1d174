"""An argument out of its range is refused before anything is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from redis.exceptions import ResponseError

from ackq import scripts
from tests.queue.scripts.calls import CALLS, MINE, Call, fill
from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import FUTURE, SECOND, Space, Value

NO_NUMBERS: tuple[Value, ...] = ("", "text", "1.5", "nan", "-nan", "inf", "-inf", "1e400", "1,0")


#: One call of each script.
FIRST = list({call.script: call for call in reversed(CALLS)}.values())


def ranges() -> Iterator[tuple[Call, int, str, int, int]]:
    """Yield every argument that a header calls an integer, with its range."""
    for call in FIRST:
        for slot in parse(read(scripts.directory(), call.script)).arguments:
            if found := re.match(r"integer (\d+)\.\.(\d+)", slot.meaning):
                yield call, slot.number - 1, slot.name, int(found[1]), int(found[2])


def out_of_range() -> Iterator[tuple[Call, str]]:
    for call, place, name, low, high in ranges():
        for value in (*NO_NUMBERS, low - 1, high + 1, low - 0.5, 1e300, -(2**63), 2**63):
            yield call.but(place, value), f"{call}-{name}-{value!r}"


def not_among_the_words() -> Iterator[tuple[Call, str]]:
    for call in FIRST:
        for slot in parse(read(scripts.directory(), call.script)).arguments:
            words = slot.meaning.split()[0]
            if "|" in words:
                for value in ("", "x", "2", "-1", words):
                    yield call.but(slot.number - 1, value), f"{call}-{slot.name}-{value!r}"


def bad_groups() -> Iterator[tuple[Call, str]]:
    """Yield calls with a good first group and a bad second one."""
    many: list[Value] = ["key"] * 4100
    tails: list[tuple[Value, ...]] = [
        (FUTURE,),
        (FUTURE, 1),
        (FUTURE, 2, "key"),
        (FUTURE, 4001, *many[:4001]),
        (FUTURE, 1, *many),
        *((receipt, 1, "key") for receipt in (*NO_NUMBERS, -1, 2**53)),
        *((FUTURE, size, "key") for size in (*NO_NUMBERS, 0, -1, 4001)),
    ]
    heads: dict[str, tuple[Value, ...]] = {
        "pop": (1, 1, 0, 0, 1, "front"),
        "ack": (),
        "reject": ("bad",),
        "extend": (1, 0),
    }
    for script, head in heads.items():
        for tail in tails:
            yield Call(script, (*head, *MINE, *tail)), f"{script}-{str(tail)[:60]}"
    good = (1, 0, FUTURE, 0, 1, "mine")
    for tail in tails:
        call = Call("nack", (*good, *tail[:1], 0, *tail[1:]))
        yield call, f"nack-{str(tail)[:60]}"
    for delay in (*NO_NUMBERS, -3, 2**53):
        yield Call("nack", (*good, FUTURE, delay, 1, "key")), f"nack-delay-{delay!r}"


def too_few_or_too_many() -> Iterator[tuple[Call, str]]:
    required = {
        "pop": 6,
        "nack": 2,
        "extend": 2,
        "schedule": 4,
        "push_once": 6,
        "peek": 4,
        "purge": 1,
        "redrive": 2,
        "drain": 1,
        "audit": 1,
        "audit_scan": 2,
        "watch": 1,
        "claims/claim": 5,
        "claims/ack": 3,
        "claims/forget": 2,
        "claims/beat": 2,
        "claims/release": 1,
        "held/scan": 1,
        "held/give_back": 1,
        "held/audit": 1,
    }
    for call in FIRST:
        for length in range(required.get(call.script, 0)):
            yield Call(call.script, call.args[:length]), f"{call}-{length}"
    yield Call("ack_id"), "ack_id-none"
    yield Call("ack_id", ("mine",) * 4001), "ack_id-4001"
    yield Call("schedule", ("delay", 0, "new", b"body", "odd")), "schedule-odd"
    yield Call("schedule", ("delay", 0, *("new", b"body") * 1001)), "schedule-1001"
    yield Call("redrive", (1, "", *["1-1"] * 1001)), "redrive-1001"
    yield Call("drop"), "drop-none"
    yield Call("drop", ("1-1",) * 51), "drop-51"
    yield Call("drop", ("1-1", "x")), "drop-entry"
    for script, most in (("run_now", 500), ("cancel", 1000)):
        yield Call(script), f"{script}-none"
        yield Call(script, (FUTURE,)), f"{script}-odd"
        yield Call(script, (FUTURE, "later") * (most + 1)), f"{script}-{most + 1}"
        for due in (*NO_NUMBERS[1:], -1, 2**53):
            yield Call(script, (FUTURE, "later", due, "due")), f"{script}-due-{due!r}"
    yield Call("audit_scan", ("context", "x", 0)), "audit_scan-cursor"
    yield Call("audit_scan", ("ready", 0, 0)), "audit_scan-walk"
    yield Call("held/scan", ("x",)), "held/scan-cursor"
    yield Call("claims/beat", (3, SECOND, *["list"] * 1001)), "claims/beat-1001"
    yield Call("claims/release", (3, *["list"] * 1001)), "claims/release-1001"


#: The bad calls of each script, by name.
BAD: dict[str, dict[str, Call]] = {}
for _call, _name in (
    *out_of_range(),
    *not_among_the_words(),
    *bad_groups(),
    *too_few_or_too_many(),
):
    BAD.setdefault(_call.script, {})[_name] = _call


@pytest.mark.parametrize("calls", BAD.values(), ids=BAD)
def test_an_argument_out_of_range_is_refused_before_anything_is_changed(
    space: Space, calls: dict[str, Call]
) -> None:
    fill(space)
    before = space.dump()
    for name, call in calls.items():
        assert "ACKQ_ARGUMENT" in error_of(call, space), name
        assert space.dump() == before, name


def error_of(call: Call, space: Space) -> str:
    """Return the text of the error that a call ends in; nothing if it is accepted."""
    try:
        call.on(space)
    except ResponseError as error:
        return str(error)
    return ""


ENDS = [
    pytest.param(call.but(place, value), id=f"{call}-{name}-{value}")
    for call, place, name, low, high in ranges()
    for value in (low, high)
]


@pytest.mark.parametrize("call", ENDS)
def test_both_ends_of_a_range_are_accepted(space: Space, call: Call) -> None:
    fill(space)
    call.on(space)
