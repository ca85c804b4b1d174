"""Every planted mistake is noticed by the test that is named beside it.

The named tests run in this process, called with the fixtures of this folder, so that hundreds
of mistakes cost seconds. A mistake counts as noticed only if an assertion fails: a script that
no longer compiles, or that ends in an error where none was planted, would prove nothing.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ResponseError

from ackq import scripts
from ackq.errors import UnknownOutcome
from tests.mutants import (
    budgets,
    catalogue,
    claims,
    counts,
    delay_claims,
    delay_counts,
    delayed,
    delayed_order,
    errors_kept,
    left_end,
    lists,
    members,
    oldest,
    row_dead_letters,
    sharded,
    slot_moves,
)
from tests.mutants.catalogue import Mutant

MUTANTS = (
    *catalogue.MUTANTS,
    *claims.MUTANTS,
    *budgets.MUTANTS,
    *left_end.MUTANTS,
    *delayed.MUTANTS,
    *delayed_order.MUTANTS,
    *errors_kept.MUTANTS,
    *counts.MUTANTS,
    *oldest.MUTANTS,
    *lists.MUTANTS,
    *delay_counts.MUTANTS,
    *delay_claims.MUTANTS,
    *row_dead_letters.MUTANTS,
    *sharded.MUTANTS,
    *members.MUTANTS,
    *slot_moves.MUTANTS,
)


def run(test: str, given: Mapping[str, Any], request: pytest.FixtureRequest) -> None:
    """Call a test of tests/queue/scripts, such as "test_ack.test_a_resent_ack_is_no_error".

    A test elsewhere is named in full, such as "tests.delay.test_counts.test_a_take_and_a_delete".
    """
    module, _, name = test.rpartition(".")
    folder = "" if module.startswith("tests.") else "tests.queue.scripts."
    function = getattr(importlib.import_module(folder + module), name)
    wanted = inspect.signature(function).parameters.keys() - given.keys()
    function(**given, **{each: request.getfixturevalue(each) for each in wanted})


@pytest.mark.parametrize("mutant", MUTANTS, ids=str, indirect=True)
def test_a_planted_mistake_is_noticed(
    mutant: Mutant, scripts_directory: Path, request: pytest.FixtureRequest
) -> None:
    client = request.getfixturevalue("space").client
    client.script_load((scripts_directory / f"{mutant.script}.lua").read_text())  # it compiles
    signs = (AssertionError, pytest.fail.Exception)
    with pytest.raises((*signs, ResponseError, UnknownOutcome) if mutant.error else signs):
        run(mutant.test, mutant.given, request)


NAMED = {repr((mutant.test, mutant.given)): mutant for mutant in MUTANTS}.values()


@pytest.mark.parametrize("named", NAMED, ids=[mutant.test for mutant in NAMED])
def test_the_named_test_passes_without_the_mistake(
    named: Mutant, request: pytest.FixtureRequest
) -> None:
    run(named.test, named.given, request)


def test_every_script_has_a_planted_mistake() -> None:
    changing = {
        script
        for script in scripts.names()
        if "/" not in script
        or script.startswith(
            ("claims/", "delay/claim", "held/", "members/", "overview/", "sharded/")
        )
    }
    assert {mutant.script for mutant in MUTANTS} >= changing
