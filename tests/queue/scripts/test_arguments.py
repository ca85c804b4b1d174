"""An argument out of its range is refused before anything is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from redis.exceptions import ResponseError

from ackq import scripts
from tests import facts
from tests.facts.refused import NO_NUMBERS
from tests.queue.scripts.busy import Call, fill
from tests.queue.scripts.calls import CALLS
from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import Space

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


def too_few() -> Iterator[tuple[Call, str]]:
    for call in FIRST:
        for length in range(facts.of(call.script).fewest):
            yield Call(call.script, call.args[:length]), f"{call}-{length}"


def refused() -> Iterator[tuple[Call, str]]:
    for each in facts.every():
        for name, args in each.refused.items():
            yield Call(each.script, args), f"{each.script}-{name}"


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
