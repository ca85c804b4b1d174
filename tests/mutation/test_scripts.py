"""Mistakes that a seed draws in a script: its tests notice most of them."""

import json
from pathlib import Path

import pytest

from tests.queue.scripts.fixtures import BINARIES
from tests.servers import Survey

from . import scripts
from .mutant import draw
from .places import ROOT
from .recording import run_plan
from .survivors import reason_of

SCRIPT = ROOT / "lua/extend.lua"
TESTS = "tests/queue/scripts/test_extend.py"


@pytest.mark.timeout(600)
def test_the_tests_of_a_script_notice_most_of_a_sample(tmp_path: Path, survey: Survey) -> None:
    mutants = [
        each
        for each in scripts.of_file(SCRIPT)
        if each.function == "lua/extend.lua: the script" and reason_of(each.key) is None
    ]
    plan = [
        {
            "key": each.key,
            "code": {each.function: each.code},
            "sound": {each.function: ""},
            "tests": [TESTS],
            "limit": 60,
        }
        for each in draw(mutants, 1, 1, scripts.KINDS)
    ]
    into = tmp_path / "results.jsonl"
    run_plan(plan, {}, into, survey.first(tuple(BINARIES)) or "")
    tried = [json.loads(line) for line in into.read_text().splitlines()]
    assert len(tried) == len(scripts.KINDS)
    survived = [each["key"] for each in tried if each["by"] is None]
    assert len(survived) <= len(tried) // 2, "\n".join(survived)


def test_a_line_of_a_script_is_in_the_innermost_of_its_blocks() -> None:
    lines = SCRIPT.read_text().splitlines()
    found = scripts.places(SCRIPT)
    loop = lines.index("for _, each in ipairs(held) do") + 1
    assert found[loop] == found[len(lines)] == "lua/extend.lua: the script+1"
    assert found[loop + 1].startswith("lua/extend.lua: the script+")
    assert found[loop + 1] != found[loop]
