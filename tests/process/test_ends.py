"""How processes end: by their handlers, by signals, with their parent; and what they leave."""

import contextlib
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import ackq
from ackq.embedded import Server
from ackq.process.kinship import DEATH
from tests.waiting import wait_until
from tests.worker.conftest import settled

from .commands import Command, working
from .test_processes import SCRIPTED, begun, push

JOBS = "tests.process.jobs:"
ADOPT = "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)"
pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    ("code", "processes"),
    [
        (0, "1"),
        *(
            pytest.param(*each, marks=pytest.mark.campaign)
            for each in ((4, "2"), (3, "1"), (4, "1"), (5, "1"), (0, "2"), (3, "2"), (5, "2"))
        ),
    ],
)
def test_a_handler_that_exits_is_a_crash_whatever_the_code(
    tmp_path: Path, server: Server, queue: ackq.Queue, code: int, processes: str
) -> None:
    """Not an end of the work, an operator's stop, or a plan that cannot work."""
    queue.push({"id": "exits", "code": code})
    options = ("-q", queue.name, "--processes", processes, "--lease", "1", "--drain")
    with working(tmp_path, server.url, JOBS + "exits", *options) as command:
        wait_until(lambda: command.events("end"), "the second delivery", 40)
        assert command.wait() == 0
        assert re.search(rf"worker process \d ended \({code}\): starting another", command.log())
    assert settled(queue)


def test_handlers_end_in_peace_if_all_processes_get_the_signal(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    """As from a service manager that signals each process of a service, and from the parent."""
    push(queue, 2, 1.5)
    options = ("-q", queue.name, "--lease", "60", "--prefetch", "0")
    with working(tmp_path, server.url, SCRIPTED, *options) as command:
        begun(command, 2)
        (child,) = command.children()
        for _ in range(2):
            child.send_signal(signal.SIGTERM)
        command.process.terminate()
        assert command.wait() == 0
        assert len(command.events("end")) == 2
    assert settled(queue)


@pytest.mark.parametrize("name", ["SIGHUP", "SIGQUIT"])
def test_a_hangup_lets_handlers_end_and_quit_gives_their_messages_back(
    tmp_path: Path, server: Server, queue: ackq.Queue, name: str
) -> None:
    gentle = name == "SIGHUP"
    push(queue, 2, 1.5 if gentle else 60)
    with working(tmp_path, server.url, SCRIPTED, "-q", queue.name, "--lease", "300") as command:
        begun(command, 2)
        command.process.send_signal(getattr(signal, name))
        assert command.wait(15) == 0
        assert len(command.events("end")) == (2 if gentle else 0)
    assert [message.receive_count for message in queue.pop_many(2)] == [1, 1] * (not gentle)
    assert queue.stats().in_flight == (0 if gentle else 2)


@pytest.mark.skipif(DEATH is None, reason="there is no such signal")
def test_the_kernel_ends_a_process_that_runs_no_python_when_its_parent_has_ended(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    assert DEATH is not None
    # After a second instead of 16: the number of the signal.
    stuck = (
        "import re, signal\n"
        "from ackq.process.kinship import die_after_parent\n"
        "die_after_parent(signal.SIGHUP)\n"
        "print('ready', flush=True)\n"
        "re.match(r'(a+)+$', 'a' * 60 + 'b')\n"
    )
    parent = (
        "import os, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {stuck!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "input()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        child = psutil.Process(int(started.stdout.readline()))
        started.stdin.close()
        assert not psutil.wait_procs([child], timeout=20)[1]
    with working(tmp_path, server.url, SCRIPTED, "-q", queue.name) as command:
        push(queue, 1)
        begun(command, 1)
        (child,) = command.children()
        caught = int(
            re.findall(r"SigCgt:\s(\w+)", Path(f"/proc/{child.pid}/status").read_text())[0], 16
        )
        assert caught >> DEATH - 1 & 1


def left(command: Command) -> list[psutil.Process]:
    found = []
    for each in psutil.Process(command.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.name() == "sleep":
                found.append(each)
    return found


@pytest.mark.parametrize(
    "how", ["process 1", pytest.param("subreaper", marks=pytest.mark.campaign)]
)
def test_adopted_processes_do_not_stay_as_zombies(
    tmp_path: Path, server: Server, queue: ackq.Queue, how: str
) -> None:
    launcher = ("unshare", "--pid", "--fork", "--kill-child") if how == "process 1" else ()
    if (
        launcher
        and subprocess.run([*launcher, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("this user may not make a namespace of processes")
    push(queue, 5)
    before = "" if launcher else ADOPT
    options = ("-q", queue.name, "--concurrency", "5")
    with working(
        tmp_path, server.url, JOBS + "orphans", *options, launcher=launcher, before=before
    ) as command:
        wait_until(lambda: len(left(command)) == 5, "all orphans")
        wait_until(lambda: not left(command), "their end")
        # The exit code of its own child is not taken away.
        assert settled(queue)
        worker = psutil.Process(command.pid).children(recursive=True)[-1]
        worker.kill()
        wait_until(lambda: "ended (-9): starting another" in command.log(), "the next one")


@pytest.mark.parametrize(
    ("handler", "child", "code"),
    [
        ("forks", "returns", 1),
        ("FORKING", "exits", 7),
        *(
            pytest.param(*each, marks=pytest.mark.campaign)
            for each in (
                ("steps_async", "returns", 1),
                ("forks", "raises", 1),
                ("forks", "exits", 7),
                ("forks_async", "returns", 1),
                ("FORKING", "returns", 1),
            )
        ),
    ],
)
def test_a_forked_child_that_goes_on_ends_and_takes_nothing(
    tmp_path: Path, server: Server, queue: ackq.Queue, handler: str, child: str, code: int
) -> None:
    queue.push_many({"id": f"m{n}", "task": "forks", "args": {}, "child": child} for n in range(30))
    options = ("-q", queue.name, "--lease", "60", "--concurrency", "4", "--drain")
    with working(tmp_path, server.url, JOBS + handler, *options) as command:
        assert command.wait(60) == 0
        assert ("the child went on" in command.log()) == (code == 1)
        events = command.events()
    assert settled(queue)
    assert len({event["pid"] for event in events}) == 1
    kinds = sorted(event["event"] for event in events)
    assert kinds == ["begin"] * 30 + [f"child {code}"] * 30


@pytest.mark.parametrize("padding", ["", "x"])
def test_a_reason_that_is_cut_within_a_character_is_still_reported(
    tmp_path: Path, server: Server, queue: ackq.Queue, padding: str
) -> None:
    name = padding + "é" * 5000
    with working(tmp_path, server.url, JOBS + name, "-q", queue.name) as command:
        assert command.wait() == 3
        assert "é" * 1000 in command.log()
        assert "Traceback" not in command.log()


def test_an_argument_that_is_not_utf_8_is_an_error_of_one_line(
    tmp_path: Path, server: Server
) -> None:
    with working(tmp_path, server.url, "tests.process.jobs:quick", "-q", "\udcff") as command:
        assert command.wait() == 3
        assert command.log().strip() == "ackq: an argument or option of ackq work is not UTF-8"


def test_a_parent_that_stops_waits_until_a_killed_handler_is_settled(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    limits = ("--time-limit", "0.5", "--kill-after", "0.3", "--lease", "600")
    with working(tmp_path, server.url, JOBS + "stuck", "-q", queue.name, *limits) as command:
        wait_until(lambda: "working on" in command.log(), "its start")
        command.process.send_signal(signal.SIGSTOP)  # so that it does not kill it before the stop
        queue.push({"id": "stuck", "stuck": True, "seconds": 0})
        begun(command, 1)
        command.process.terminate()
        command.process.send_signal(signal.SIGCONT)
        assert command.wait(60) == 0
    assert queue.stats().delayed == 1
