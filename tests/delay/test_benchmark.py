"""The benchmark runs and reports; what it measures is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_a_smoke_run_reports(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.delay", "--smoke", "--json", str(result)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text())
    assert {"server", "versions", "machine", "settings", "contestants"} <= set(found)
    assert any(name.startswith("ackq") for name in found["contestants"])
    assert any("article" in name for name in found["contestants"])
