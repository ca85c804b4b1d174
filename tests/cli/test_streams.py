"""Streams that are closed, have another encoding, or have lost their reader."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackq import Queue
from tests import forked
from tests.cli.terminal import CODE, shown


def run(redirection: str, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a shell does, with a redirection."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", CODE, *args],
        text=True,
        capture_output=True,
        timeout=30,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("args", ["stats {}", "peek {} --json", "pop {} --ack", "stats --help"])
def test_a_closed_output_is_one_line_and_nothing_is_settled(url: str, name: str, args: str) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push({"id": "a"})
        done = run(">&-", *args.format(name).split(), ACKQ_REDIS_URL=url)
        now = queue.stats()
    assert (done.returncode, done.stderr) == (3, "ackq: [Errno 9] Bad file descriptor\n")
    assert now.ready + now.in_flight == 1


def test_what_prints_nothing_needs_no_output(url: str, name: str) -> None:
    assert run(">&-", "pause", name, "--url", url).returncode == 0
    assert run(">&- 2>&- <&-", "resume", name, "--url", url).returncode == 0


def test_a_closed_input_cannot_confirm(url: str, name: str) -> None:
    done = run("<&-", "purge", name, "--url", url)
    assert done.returncode == 2
    assert "cannot ask for confirmation" in done.stderr


def test_an_error_that_cannot_be_printed_still_has_its_exit_code(url: str, name: str) -> None:
    assert run("2>&-", "stats", f"{name}:x", "--kind", "rsmq", "--url", url).returncode == 3


def test_what_an_encoding_lacks_is_escaped(url: str, name: str) -> None:
    encoding = "latin-1"
    with Queue.from_url(url, name) as queue:
        queue.push({"id": "\u6f22", "text": "x" * 200})
    done = run("", "peek", name, "--url", url, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("\\u6f22\t0\t")
    lines = shown("peek", name, "--url", url, columns=80, PYTHONIOENCODING=encoding)
    assert "\\u6f22" in lines
    assert "\\u2026" not in lines  # what is cropped ends in nothing that is not there


def test_a_demo_that_nobody_reads_ends_as_others_do(url: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\ntwo\n" * 20)
    demo = ["demo", "--seconds", "0.3", "--url", url, "--input", str(tmp_path / "lines")]
    process = forked.Popen(
        [sys.executable, "-c", CODE, *demo],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == ""
    assert process.wait(30) == 141
