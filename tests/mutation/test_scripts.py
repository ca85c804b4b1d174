"""Mistakes that a seed draws in the scripts: the tests of a script notice almost all of them."""

import json
from pathlib import Path

import pytest

from tests.queue.scripts.fixtures import BINARIES
from tests.servers import Survey

from . import scripts
from .mutant import draw
from .recording import run_plan
from .survivors import reason_of

#: Mutants of each kind, and seconds of the processor for the tests of each mutant.
SIZE, BUDGET = 1, 1.5


@pytest.mark.timeout(600)
def test_the_tests_of_the_scripts_notice_most_of_a_sample(tmp_path: Path, survey: Survey) -> None:
    drawn = draw(scripts.mutants(), 1, SIZE, scripts.KINDS)
    plan = [scripts.planned(each, BUDGET) for each in drawn if reason_of(each.key) is None]
    for each in plan:  # only the tests that name a script, so that few files are collected
        each["tests"] = [test for test in each["tests"] if "::" in test]
    into = tmp_path / "results.jsonl"
    run_plan(plan, {}, into, survey.first(tuple(BINARIES)) or "")
    tried = [json.loads(line) for line in into.read_text().splitlines()]
    survived = [each["key"] for each in tried if each["by"] is None]
    assert len(tried) == len(plan)
    assert len(survived) <= len(tried) // 2, "\n".join(survived)
