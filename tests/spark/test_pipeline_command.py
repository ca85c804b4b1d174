"""`ackq pipeline run` as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackq import Queue
from ackq.queue.claims_client import Claims


@pytest.mark.campaign
def test_a_pipeline_that_is_fenced_off_ends_with_a_code_of_its_own(
    queue: Queue, url: str, tmp_path: Path
) -> None:
    config = tmp_path / "jobs.toml"
    config.write_text(
        f'name = "{queue.name}"\ncheckpoint = "state"\nsource.queue = "{queue.name}"\n'
        'sink.format = "noop"\n'
    )
    queue.push({"id": "first"})
    process = subprocess.Popen(
        [sys.executable, "-c", "from ackq.cli import main; main()",
         "pipeline", "run", config, "--url", url, "--json"],
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        while not json.loads(process.stdout.readline())["batches"]:
            pass  # the query has not started
        with Claims.from_url(url, queue.name, queue.name) as claims:
            claims.begin()
        queue.push({"id": "second"})
        _, errors = process.communicate(timeout=100)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 5
    assert "another process took it over" in errors.splitlines()[-1]
    assert "incubator" not in errors  # no warning of Java
    assert queue.stats().ready == 1
