"""Every planted mistake is noticed by the test that is named beside it.

The ordinary run plants a quarter of them, others each time, and `make test-campaign` the rest.
The named tests run in this process, called with the fixtures of this folder, so that a mistake
costs a tenth of a second. A mistake counts as noticed only if an assertion fails: a script that
no longer compiles, or that ends in an error where none was planted, would prove nothing.
"""

import importlib
import inspect
import os
import random
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ResponseError

from ackq import scripts
from ackq.errors import AckqError
from ackq.scripts import compose
from tests import facts
from tests.facts.mistakes import Mutant

MUTANTS = [mutant for each in facts.every() for mutant in each.mutants]
#: The processes of a run draw the same.
DRAWN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID")).sample(MUTANTS, len(MUTANTS) // 4)


def given(mutants: Iterable[Mutant], name: Callable[[Mutant], str]) -> list[Any]:
    """Return the parameters of a test. Those that are not drawn are for `make test-campaign`."""
    return [
        pytest.param(each, marks=() if each in DRAWN else pytest.mark.campaign, id=name(each))
        for each in mutants
    ]


def test_every_mistake_can_be_planted() -> None:
    composed = {each.script: compose(scripts.directory(), each.script) for each in MUTANTS}
    counts = {str(each): composed[each.script].count(each.mistake.old) for each in MUTANTS}
    assert {mutant: count for mutant, count in counts.items() if count != 1} == {}


def run(test: str, given: Mapping[str, Any], request: pytest.FixtureRequest) -> None:
    """Call a test of tests/queue/scripts, such as "test_ack.test_a_resent_ack_is_no_error".

    A test elsewhere is named from tests, such as "delay.test_counts.test_a_take_and_a_delete".
    """
    module, _, name = test.rpartition(".")
    folder = "tests." if "." in module else "tests.queue.scripts."
    function = getattr(importlib.import_module(folder + module), name)
    wanted = inspect.signature(function).parameters.keys() - given.keys()
    function(**given, **{each: request.getfixturevalue(each) for each in wanted})


@pytest.mark.parametrize("mutant", given(MUTANTS, str), indirect=True)
def test_a_planted_mistake_is_noticed(
    mutant: Mutant, scripts_directory: Path, request: pytest.FixtureRequest
) -> None:
    client = request.getfixturevalue("space").client
    client.script_load(compose(scripts_directory, mutant.script))  # it compiles
    signs = (AssertionError, pytest.fail.Exception)
    with pytest.raises((*signs, ResponseError, AckqError) if mutant.mistake.error else signs):
        run(mutant.test, mutant.mistake.given, request)


#: The other tests run in their own folder with the same fixtures, on the same server.
NAMED = {
    repr((mutant.test, mutant.mistake.given)): mutant
    for mutant in MUTANTS
    if mutant.test.count(".") > 1 or mutant.mistake.given
}.values()


@pytest.mark.parametrize("named", given(NAMED, attrgetter("test")))
def test_the_named_test_passes_without_the_mistake(
    named: Mutant, request: pytest.FixtureRequest
) -> None:
    run(named.test, named.mistake.given, request)
