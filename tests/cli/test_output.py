"""What cannot be written, or used on this machine: one line, an exit code, and nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ackq import Queue
from tests import forked

ACKQ = [sys.executable, "-c", "from ackq.cli import main; main()"]
FULL = Path("/dev/full")
full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


def run(*args: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
    return forked.run([*ACKQ, *args], text=True, timeout=30, check=False, **pipes)


@full
@pytest.mark.parametrize("args", ["stats {}", "peek {} --json", "--help", "stats --help"])
def test_a_full_disk_is_one_line_and_code_3(url: str, name: str, args: str) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push({"id": "a"})
    with FULL.open("w") as output:
        done = run(
            *args.format(name).split(), stdout=output, env={**os.environ, "ACKQ_REDIS_URL": url}
        )
    assert done.returncode == 3
    assert done.stderr == "ackq: [Errno 28] No space left on device\n"


@full
def test_what_could_not_be_printed_is_not_settled(url: str, name: str) -> None:
    with Queue.from_url(url, name) as queue, FULL.open("w") as output:
        queue.push_many([{"id": "a"}, {"id": "b"}])
        done = run("pop", name, "-n", "2", "--ack", "--url", url, stdout=output)
        assert done.returncode == 3
        assert queue.stats().in_flight == 2


@full
def test_where_no_error_can_be_printed_its_exit_code_remains(url: str, name: str) -> None:
    with FULL.open("w") as output:
        assert run("stats", name, "--url", url, stdout=output, stderr=output).returncode == 3


def test_a_pipe_that_nobody_reads_ends_it_as_sigpipe_ends_others(url: str, name: str) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push_many([{"id": number, "text": "x" * 5000} for number in range(100)])
        process = forked.Popen(
            [*ACKQ, "pop", name, "-n", "5000", "--ack", "--url", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 141
        assert process.stderr is not None
        with process.stderr as errors:
            assert errors.read() == ""
        assert queue.stats().in_flight == 100
