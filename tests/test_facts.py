"""Each script has its facts: examples, planted mistakes and worst cases."""

import pytest

from ackq import scripts
from tests import facts
from tests.facts.facts import Facts


def test_a_script_has_its_facts() -> None:
    for script in scripts.names():
        found = facts.of(script)
        place = f"tests/facts/{script}.py, or the file of its folder"
        assert found.cases, f"{place}: write a worst case, @FACTS.worst(...)"
        assert found.calls, f"{place}: write an example, calls=((...),)"
        if found.operation:
            assert found.replies, f"{place}: write what the script returns then, replies=[...]"
        assert found.mistakes, f"{place}: plant a mistake that a test notices, mistakes=..."


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
