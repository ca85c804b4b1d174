"""The worker benchmark runs; what it measures, and whom beside ackq, is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.workers.environments import HERE, PEERS


def test_a_smoke_run_reports_both_workers(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.worker", "--smoke", "--no-peers",
               "--json", str(result)]  # fmt: skip
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text())
    assert set(found["contestants"]) == {"ackq, threads", "ackq, tasks"}
    for figures in found["contestants"].values():
        assert set(figures) == {"no-op", "1 ms sleep"}


def test_every_peer_has_its_file() -> None:
    assert all((HERE / peer.file).is_file() for peer in PEERS)
