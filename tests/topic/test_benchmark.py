"""The benchmark runs and reports everybody; what it measures is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.topic import MAKERS, SIZES


def test_a_smoke_run_reports_every_contestant(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.topic", "--smoke", "--json", str(result)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text())
    names = {who + tail for who in MAKERS for tail in SIZES}
    assert set(found["contestants"]) == names
    assert {"server", "versions", "machine", "settings", "bytes_a_message"} <= set(found)
    assert all(who in done.stdout for who in names)
