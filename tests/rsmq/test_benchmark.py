"""The benchmark runs and reports everybody; what it measures is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CONTESTANTS = {"ackq", "PyRSMQ", "ackq, batch", "PyRSMQ, batch", "sent by ackq", "sent by PyRSMQ"}


def test_a_smoke_run_reports_every_contestant(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.rsmq", "--smoke", "--json", str(result)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text())
    assert set(found["contestants"]) == CONTESTANTS
    assert len(found["ratios"]) == 4
    assert all(who in done.stdout for who in CONTESTANTS)
