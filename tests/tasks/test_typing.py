"""Type checkers reject wrong calls of tasks, and accept right ones."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ackq.errors import ConfigurationError

FILE = Path(__file__).with_name("typed.py")
WRONG = [
    number
    for number, line in enumerate(FILE.read_text().splitlines(), 1)
    if line.endswith("# wrong")
]


def test_without_msgspec_the_import_says_what_to_install() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "msgspec", None)
        for name in [each for each in sys.modules if each.startswith("ackq.tasks")]:
            patch.delitem(sys.modules, name)
        with pytest.raises(ConfigurationError, match=r"pip install 'ackq\[tasks\]'"):
            importlib.import_module("ackq.tasks")
        for name in [each for each in sys.modules if each.startswith("ackq.tasks")]:
            del sys.modules[name]


@pytest.mark.parametrize(
    "checker", [("mypy", "--strict", "--follow-imports=silent"), ("pyright",)], ids=lambda it: it[0]
)
def test_exactly_the_wrong_calls_are_rejected(checker: tuple[str, ...]) -> None:
    pytest.importorskip(checker[0])
    command = [sys.executable, "-m", *checker, str(FILE)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=FILE.parents[2])
    rejected = re.findall(r"typed\.py:(\d+):.*?error", run.stdout)
    assert {int(number) for number in rejected} == set(WRONG), run.stdout + run.stderr
