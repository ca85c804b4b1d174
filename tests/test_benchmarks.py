"""The benchmarks run and report everybody; what they measure is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CONTESTANTS = {
    "depth": {"shallow", "deep", "pop_many(1000)", "pop_many(100)"},
    "waiters": {"ackq", "BRPOP"},
}


@pytest.mark.parametrize("name", CONTESTANTS)
def test_a_smoke_run_reports_every_contestant(name: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--smoke", "--json", str(result)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text())
    assert set(found["contestants"]) == CONTESTANTS[name]
    assert {"server", "versions", "machine", "settings"} <= set(found)
    assert all(who in done.stdout for who in CONTESTANTS[name])
