"""Each script has its facts: examples, planted mistakes and worst cases."""

import re
from textwrap import dedent

import pytest

from ackq import scripts
from tests import facts
from tests.facts import mistakes
from tests.facts.facts import Facts
from tests.facts.mistakes import Mistake


def test_a_script_has_its_facts() -> None:
    for script in scripts.names():
        found = facts.of(script)
        place = f"tests/facts/{script}.py, or the file of its folder"
        assert found.cases, f"{place}: write a worst case, @FACTS.worst(...)"
        assert found.calls, f"{place}: write an example, calls=((...),)"


def test_a_script_without_facts_says_where_to_write_them() -> None:
    with pytest.raises(LookupError, match=r"write tests/facts/nothing\.py"):
        facts.of("nothing")
    with pytest.raises(LookupError, match=r"write tests/facts/rsmq/peek\.py"):
        facts.of("rsmq/peek")


def test_no_two_cases_and_no_two_mistakes_have_the_same_name() -> None:
    def names(found: Facts) -> list[str]:
        return [*map(str, found.cases), *map(str, found.mutants)]

    for each in facts.every():
        assert len(set(names(each))) == len(names(each)), each.script


def test_a_list_of_mistakes_is_read_as_its_module_shows() -> None:
    (shown,) = re.findall(r"::\n\n(.*?)\n\n", mistakes.__doc__ or "", re.DOTALL)
    more = ["  given: few", "  a shared one", "other.test_b", "  a shared one"]
    shared = Mistake("a shared one", "a", "b")
    found = mistakes.read(
        "\n".join([dedent(shown), *more]), {"few": {"count": 1}}, {shared.what: shared}
    )
    released = "test_nack.test_a_release_does_not_count"
    moved = "faults.test_failover.test_a_slot_moves"
    noted = "local noted = redis.call('HGET', receives, key)"
    given = {"settle": "release", "count": 3}
    assert list(found) == [
        (released, Mistake("a release counts", "count = count - 1 + charge", "")),
        (moved, Mistake("reads too late", noted, "local noted = false", given, error=True)),
        (moved, Mistake("a shared one", "a", "b", {"count": 1})),
        ("other.test_b", shared),
    ]
    with pytest.raises(ValueError, match="'a typo' is not in tests/facts/parts"):
        list(mistakes.read("other.test_b\n  a typo"))
