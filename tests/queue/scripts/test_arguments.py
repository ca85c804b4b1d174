"""Every script refuses an argument out of its range before it changes anything."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from redis.exceptions import ResponseError

from ackq import scripts
from tests import facts
from tests.facts.refused import NO_NUMBERS
from tests.queue.scripts.busy import Call, prepare
from tests.queue.scripts.calls import ALL
from tests.queue.scripts.headers import Slot, parse, read
from tests.queue.scripts.space import Space

#: One call of each script.
FIRST = list({call.script: call for call in reversed(ALL)}.values())


def ranges(calls: Sequence[Call] = FIRST) -> Iterator[tuple[Call, Slot, int, int]]:
    """Yield every argument that a header calls an integer, with its range."""
    for call in calls:
        for slot in parse(read(scripts.directory(), call.script)).arguments:
            if found := re.match(r"integer (\d+)\.\.(2\^53-1|\d+)", slot.meaning):
                high = 2**53 - 1 if found[2] == "2^53-1" else int(found[2])
                yield call, slot, int(found[1]), high


def out_of_range() -> Iterator[tuple[Call, str]]:
    for call, slot, low, high in ranges():
        wrong = NO_NUMBERS[1:] if "; empty: " in slot.meaning else NO_NUMBERS
        for value in (*wrong, low - 1, high + 1, low - 0.5, 1e300, -(2**63), 2**63):
            yield call.but(slot.number - 1, value), f"{call}-{slot.name}-{value!r}"


def not_among_the_words() -> Iterator[tuple[Call, str]]:
    for call in FIRST:
        for slot in parse(read(scripts.directory(), call.script)).arguments:
            words = slot.meaning.split()[0]
            if "|" in words:
                for value in ("", "x", "2", "-1", words):
                    yield call.but(slot.number - 1, value), f"{call}-{slot.name}-{value!r}"


def too_few() -> Iterator[tuple[Call, str]]:
    for call in FIRST:
        for length in range(facts.of(call.script).fewest):
            yield replace(call, args=call.args[:length]), f"{call}-{length}"


def refused() -> Iterator[tuple[Call, str]]:
    for call in FIRST:
        for name, args in facts.of(call.script).refused.items():
            yield replace(call, args=args), f"{call}-{name}"


#: The bad calls of each script, by name.
BAD: dict[str, dict[str, Call]] = {}
for _call, _name in (
    *out_of_range(),
    *not_among_the_words(),
    *too_few(),
    *refused(),
):
    BAD.setdefault(_call.script, {})[_name] = _call


@pytest.mark.parametrize("calls", BAD.values(), ids=BAD)
def test_an_argument_out_of_range_is_refused_before_anything_is_changed(
    space: Space, calls: dict[str, Call]
) -> None:
    prepare(space, next(iter(calls.values())).script)
    before = space.dump()
    for name, call in calls.items():
        assert "ACKQ_ARGUMENT" in error_of(call, space), name
    assert space.dump() == before


def error_of(call: Call, space: Space) -> str:
    """Return the text of the error that a call ends in; nothing if it is accepted."""
    try:
        call.on(space)
    except ResponseError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("call", FIRST, ids=[call.script for call in FIRST])
def test_both_ends_of_a_range_are_accepted(space: Space, call: Call) -> None:
    ends = [
        other.but(slot.number - 1, value)
        for other, slot, low, high in ranges([call])
        if slot.name not in facts.of(call.script).dependent
        for value in (low, high)
    ]
    for accepted in (call, *ends):
        space.clear()
        prepare(space, call.script)
        assert "ACKQ_ARGUMENT" not in error_of(accepted, space), accepted
