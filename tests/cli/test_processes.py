"""The command as a user runs it: one process after the other, on the embedded server."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ackq import Queue, embedded
from tests import forked
from tests.waiting import wait_until

ACKQ = [sys.executable, "-c", "from ackq.cli import main; main()"]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """``start("pop", "jobs")``: the command in a process, with a server of this test's own.

    ``terminal=`` is what it reads and writes; without it, it writes into pipes.
    """
    monkeypatch.setenv("ACKQ_HOME", str(tmp_path))
    monkeypatch.delenv("ACKQ_REDIS_URL", raising=False)
    started = []

    def run(*args: str, terminal: int | None = None) -> subprocess.Popen[str]:
        output = subprocess.PIPE if terminal is None else terminal
        process = forked.Popen(
            [*ACKQ, *args], stdin=terminal, stdout=output, stderr=output, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()
    embedded.stop_shared()


def push() -> None:
    """Push onto the list ``jobs`` of the server that the commands start, without a process."""
    with Queue.from_url(embedded.shared_url(), "jobs") as queue:
        queue.push({"x": ""})


def leave(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal, again where it came before the process had begun to read.

    Python looks at signals between two steps: one that comes after the last step before a read is
    seen when the read has ended.
    """
    for _ in range(4):
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
            return


def test_what_one_process_pushed_another_pops(start: Start) -> None:
    pushed = start("push", "jobs", '{"id":"a"}')
    assert pushed.communicate(timeout=20)[0] == "a\n"
    waiting = start("pop", "jobs", "--wait", "20", "--ack")
    assert waiting.communicate(timeout=20)[0] == '{"id":"a"}\n'
    empty = start("pop", "jobs")
    assert empty.communicate(timeout=20)[0] == ""
    assert empty.returncode == 1


def test_a_waiting_pop_ends_quietly_on_ctrl_c(start: Start) -> None:
    waiting = start("pop", "jobs", "--wait", "inf")
    url = embedded.shared_url()
    import redis

    with redis.Redis.from_url(url) as client:
        wait_until(lambda: client.info("clients")["blocked_clients"], "the command to wait")
    waiting.send_signal(signal.SIGINT)
    _, errors = waiting.communicate(timeout=10)
    assert waiting.returncode == 130
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("y", 0, 0), ("n", 1, 1), ("", 1, 1), (signal.SIGINT, 130, 1)]
)
def test_a_question_is_answered_or_nothing_is_done(
    start: Start, answer: str | signal.Signals, code: int, left: int
) -> None:
    push()
    parent, child = pty.openpty()
    process = start("purge", "jobs", terminal=child)
    shown = ""
    while "[y/N]" not in shown:
        shown += os.read(parent, 4096).decode()
    if isinstance(answer, signal.Signals):
        leave(process, answer)
    else:
        os.write(parent, answer.encode() + b"\n")
    assert process.wait(20) == code
    os.close(child)
    os.close(parent)
    with Queue.from_url(embedded.shared_url(), "jobs") as queue:
        assert queue.stats().ready == left


def test_starting_up_does_not_import_what_is_heavy() -> None:
    code = (
        "import sys, click.testing\nfrom ackq.cli import main\n"
        "click.testing.CliRunner().invoke(main, ['--help'])\n"
        "click.testing.CliRunner().invoke(main, ['pop', '--help'])\n"
        "print([m for m in ('rich', 'ackq.demo', 'ackq.embedded', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "rich" not in done.stdout
    assert "ackq." not in done.stdout
