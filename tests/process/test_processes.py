"""``ackq work`` as processes: how they start, end, are replaced and reloaded."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

import ackq
from ackq.embedded import Server
from ackq.process.children import Child, private_folder
from ackq.process.plan import Plan
from ackq.process.spares import Spares, Started
from tests.waiting import wait_until
from tests.worker.conftest import Silencer, settled

from .commands import Command, working

QUICK = "tests.process.jobs:quick"
SCRIPTED = "tests.process.jobs:scripted"
#: Handlers that go on although they are cancelled.
ENDLESS = ("tests.process.jobs:stubborn", "tests.process.jobs:in_an_executor")
pytestmark = pytest.mark.timeout(120)


def push(queue: ackq.Queue, count: int, seconds: float = 0.0, prefix: str = "m") -> None:
    queue.push_many([{"id": f"{prefix}{n}", "seconds": seconds} for n in range(count)])


def begun(command: Command, count: int) -> None:
    wait_until(lambda: len(command.events("begin")) >= count, f"{count} to begin", 40)


@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.campaign), 2])
def test_a_child_that_dies_is_replaced_and_its_message_comes_back(
    tmp_path: Path, server: Server, queue: ackq.Queue, processes: int
) -> None:
    push(queue, 1, 3)
    options = ("-q", queue.name, "--processes", str(processes), "--lease", "60")
    with working(tmp_path, server.url, SCRIPTED, *options) as command:
        begun(command, 1)
        victim = psutil.Process(command.events("begin")[0]["pid"])
        victim.kill()
        wait_until(
            lambda: len(command.children()) == processes and victim not in command.children(),
            "another in its place",
            40,
        )
        wait_until(lambda: settled(queue), "the same delivery again, alone", 40)
    assert [event["count"] for event in command.events("begin")] == [1, 1]
    assert "ended (-9)" in command.log()


@pytest.mark.parametrize(
    "handler", [pytest.param(SCRIPTED, marks=pytest.mark.campaign), SCRIPTED + "_async"]
)
def test_the_ack_of_a_process_that_was_frozen_past_its_lease_is_refused(
    tmp_path: Path, server: Server, queue: ackq.Queue, handler: str
) -> None:
    push(queue, 1, 3)
    options = ("-q", queue.name, "--processes", "2", "--lease", "1")
    with working(tmp_path, server.url, handler, *options) as command:
        begun(command, 1)
        frozen = psutil.Process(command.events("begin")[0]["pid"])
        frozen.suspend()
        begun(command, 2)  # the other one has it now
        frozen.resume()
        wait_until(lambda: "lost its lease" in command.log(), "the refusal", 20)
        wait_until(lambda: settled(queue), "the ack of the other", 20)
        # A handler writes this before its ack can be sent, so no other ack has settled the message.
        assert 2 in {event["count"] for event in command.events("end")}
    assert [event["count"] for event in command.events("begin")] == [1, 2]


def test_children_end_when_their_parent_is_killed(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    """Although it has not read what they reported: the server of the tasks."""
    options = ("-q", queue.name, "--processes", "2")
    variables = {"ACKQ_REDIS_URL": "", "SERVER_OF_TASKS": server.url}
    handler = "tests.process.jobs:FORKING"
    with working(tmp_path, server.url, handler, *options, variables=variables) as command:
        children = wait_until(lambda: len(command.children()) == 2 and command.children(), "both")
        command.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: command.log().count("working on") == 2, "their start")
        command.process.kill()
        assert isinstance(children, list)
        _, alive = psutil.wait_procs(children, timeout=20)
        assert not alive
        assert command.log().count("stopped") == 2


@pytest.mark.parametrize(
    ("phase", "processes"),
    [("starting", 2), ("idle", 2), ("taking", 1), ("handling", 2), ("between", 1)],
)
def test_a_sigterm_in_any_phase_loses_and_delays_nothing(
    tmp_path: Path, server: Server, queue: ackq.Queue, phase: str, processes: int
) -> None:
    seconds = {"handling": 1.0, "between": 0.05}.get(phase, 0.0)
    push(queue, {"idle": 1, "taking": 20_000}.get(phase, 200), seconds)
    options = f"-q {queue.name} --processes {processes} --concurrency 4 --lease 60".split()
    with working(tmp_path, server.url, SCRIPTED, *options) as command:
        if phase != "starting":
            begun(command, 1)
        if phase == "idle":
            wait_until(lambda: settled(queue), "the first")
            time.sleep(0.2)  # into the wait
        command.process.terminate()
        code = command.wait(30)
        assert code == 0 or (phase == "starting" and code == -signal.SIGTERM)
        stats = queue.stats()
        assert stats.in_flight == 0, "something waits for its lease to end"
        done = {event["id"] for event in command.events("end")}
        assert len(command.events("begin")) == len(command.events("end")) == len(done)
        total = {"idle": 1, "taking": 20_000}.get(phase, 200)
        assert stats.ready == total - len(done)
        left = queue.pop_many(1000)
        assert {message.receive_count for message in left} <= {1}


@pytest.mark.parametrize(
    "handler",
    [
        SCRIPTED,
        ENDLESS[0],
        *(
            pytest.param(each, marks=pytest.mark.campaign)
            for each in (SCRIPTED + "_async", ENDLESS[1])
        ),
    ],
)
def test_a_second_signal_leaves_at_once(
    tmp_path: Path, server: Server, queue: ackq.Queue, handler: str
) -> None:
    push(queue, 3, 60)
    options = ("-q", queue.name, "--lease", "300", "--grace", "100")
    with working(tmp_path, server.url, handler, *options) as command:
        begun(command, 3)
        command.process.terminate()
        time.sleep(0.3)
        assert command.process.poll() is None
        command.process.send_signal(signal.SIGINT)
        assert command.wait(15) == 0
        assert queue.stats().ready == 3
        assert [message.receive_count for message in queue.pop_many(3)] == [1, 1, 1]


@pytest.fixture
def silenced(server: Server) -> Iterator[tuple[str, Silencer]]:
    """A URL of the server whose connections can go silent, and the switch."""
    with Silencer(server.port or 0) as silencer:
        yield f"redis://127.0.0.1:{silencer.port}?socket_timeout=3600", silencer


def hang(command: Command, queue: ackq.Queue, silencer: Silencer) -> None:
    """Let the connections go silent while a handler runs: its ack is never answered."""
    push(queue, 1, 0.5)
    begun(command, 1)
    silencer.silent.set()
    wait_until(lambda: command.events("end"), "the handler to end")


@pytest.mark.parametrize(
    "frozen", [pytest.param(False, marks=pytest.mark.campaign), True], ids=["silent", "frozen"]
)
def test_a_second_signal_ends_a_worker_whose_connections_or_processes_hang(
    tmp_path: Path, silenced: tuple[str, Silencer], queue: ackq.Queue, frozen: bool
) -> None:
    url, silencer = silenced
    with working(tmp_path, url, SCRIPTED, "-q", queue.name, "--grace", "3600") as command:
        hang(command, queue, silencer)
        if frozen:  # no signal but SIGKILL ends it
            command.children()[0].suspend()
        command.process.terminate()
        command.process.send_signal(signal.SIGINT)
        assert command.wait(40) == 0  # in some ten seconds
        assert not command.children()
        assert "does not end: killing it" in command.log()


def test_a_process_that_cannot_end_does_not_outlive_its_parent(
    tmp_path: Path, silenced: tuple[str, Silencer], queue: ackq.Queue
) -> None:
    url, silencer = silenced
    with working(tmp_path, url, SCRIPTED, "-q", queue.name, "--grace", "0") as command:
        hang(command, queue, silencer)
        (child,) = command.children()
        command.process.kill()
        _, alive = psutil.wait_procs([child], timeout=40)
        for each in alive:
            each.kill()
        assert not alive


def test_a_worker_says_what_it_works_on_and_what_it_waits_for(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    push(queue, 3, 60)
    url = f"redis://default:c4n4ry@127.0.0.1:{server.port}/0"
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", "c4n4ry")
        try:
            options = ("-q", queue.name, "--grace", "17", "--concurrency", "4")
            with working(tmp_path, url, SCRIPTED, *options) as command:
                begun(command, 3)
                command.process.send_signal(signal.SIGINT)
                waits = "stopping: 3 running, up to 17 s; stop again to release their messages"
                wait_until(lambda: waits in command.log(), "it to say so")
                command.process.send_signal(signal.SIGINT)
                assert command.wait(30) == 0
        finally:
            client.config_set("requirepass", "")
    (line,) = [each for each in command.log().splitlines() if "working on" in each]
    assert line.endswith(
        f"working on {queue.name} (lease 30 s, max receives 25) at"
        f" redis://***@127.0.0.1:{server.port}/0 with {SCRIPTED}:"
        f" concurrency 4, processes 1, ackq {ackq.__version__}"
    )


def test_a_child_is_replaced_at_once_again_once_it_has_lived_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(QUICK, ("jobs",))
    child, spares = Child(0, plan, tmp_path), Spares(plan)

    def pause(age: float) -> float:
        child.start(spares)
        child.send(signal.SIGKILL)
        child.started -= age
        wait_until(lambda: child.poll() is not None, "its end")
        return child.due - time.monotonic()

    def no_process(plan: Plan) -> Started:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    # What has passed since its end makes each a little shorter.
    for expected in (0.1, 0.2, 0.4, 0.8):
        assert expected / 2 < pause(0) <= expected
    child._deaths = 50
    assert 5 < pause(0) <= 10, "pauses of up to 10 seconds, as docs/worker.md says"
    assert pause(10.0) <= 0.1
    assert 0.1 < pause(0) <= 0.2
    with monkeypatch.context() as patch:
        patch.setattr(spares, "start", no_process)
        child.start(spares)
    assert 0.2 < child.due - time.monotonic() <= 0.4
    assert child.pid is None
    spares.keep()
    monkeypatch.setattr("ackq.process.spares.PROCESSORS", 2)
    for starting, expected in ((2, 0), (1, 1), (0, 2)):
        spares.renew(starting)
        assert len(spares.pids) == expected
    for each in psutil.Process().children():
        if each.pid in spares.pids:
            each.suspend()
    assert 0.4 < pause(0) <= 0.8, "a spare that was killed before it has read its plan"
    for spare in spares._waiting:
        spare.process.kill()
        spare.process.wait()
    assert 0.8 < pause(0) <= 1.6, "those that have ended are left out"
    spares.close()


def test_a_handler_that_cannot_be_imported_is_said_once(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    (tmp_path / "tasks.py").write_text("import no_such_dependency\n")
    options = ("-q", queue.name, "--processes", "2")
    with working(tmp_path, server.url, "tasks:handle", *options, cwd=tmp_path) as command:
        assert command.wait(30) == 3
        (line,) = command.log().splitlines()
        assert "tasks:handle: " in line
        assert line.endswith(f"at {tmp_path / 'tasks.py'}:1")


def test_a_port_that_is_in_use_is_said_in_a_line(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        options = ("-q", queue.name, "--processes", "2", "--health-port", port)
        with working(tmp_path, server.url, QUICK, *options) as command:
            assert command.wait(30) == 3
            said = [line for line in command.log().splitlines() if line.startswith("ackq: ")]
            assert said == [
                f"ackq: health check: cannot listen on 127.0.0.1:{port}: Address already in use"
            ]
            assert "Traceback" not in command.log()


def test_a_file_of_the_user_hides_no_module_from_a_worker(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    (tmp_path / "queue.py").write_text("raise RuntimeError('not the queue you want')")
    (tmp_path / "tasks.py").write_text("def handle(message): pass")
    push(queue, 1)
    options = ("-q", queue.name, "--processes", "2", "--drain")
    with working(tmp_path, server.url, "tasks:handle", *options, cwd=tmp_path) as command:
        assert command.wait(30) == 0, command.log()
        assert settled(queue)


def test_processes_that_drain_end_by_themselves(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    push(queue, 20)
    options = ("-q", queue.name, "--processes", "2", "--drain", "--log-json", "--verbose")
    with working(tmp_path, server.url, QUICK, *options) as command:
        assert command.wait(30) == 0
        assert settled(queue)
        lines = [json.loads(line) for line in command.log().splitlines() if line[0] == "{"]
        assert {line["message_id"] for line in lines if "message_id" in line} == {
            f"m{n}" for n in range(20)
        }


def test_changed_files_are_reloaded(tmp_path: Path, server: Server, queue: ackq.Queue) -> None:
    pytest.importorskip("watchfiles")
    source = tmp_path / "handlers.py"
    source.write_text("def handle(message): print('first', flush=True)\n")
    options = ("-q", queue.name, "--reload", "--processes", "2")
    with working(tmp_path, server.url, "handlers:handle", *options, cwd=tmp_path) as command:
        push(queue, 1)
        wait_until(lambda: "first" in command.log(), "the first version", 40)
        # A process that is slow to start would meet the broken one before the change is noticed.
        wait_until(lambda: command.log().count("working on") == 2, "all of them", 40)
        source.write_text("def handle(message) print('broken')\n")
        wait_until(lambda: "SyntaxError" in command.log(), "the broken one to be tried", 40)
        tried: set[int] = set()

        def tries() -> int:
            tried.update(child.pid for child in command.children())
            return len(tried)

        wait_until(lambda: tries() > 4, "it to be tried again", 40)
        assert command.log().count("SyntaxError") <= command.log().count("files changed")
        source.write_text("def handle(message): print('second', flush=True)\n")
        push(queue, 1)
        wait_until(lambda: "second" in command.log(), "the second version", 40)


def refusal(health: str) -> str:
    """Return the status and the reason of a health endpoint that is red; "" if it is green."""
    try:
        urllib.request.urlopen(health, timeout=5).close()
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode()}"
    return ""


def test_the_health_of_all_processes_is_one_file(
    tmp_path: Path, server: Server, queue: ackq.Queue, free_port: int
) -> None:
    file = tmp_path / "healthy"
    options = (
        f"-q {queue.name} --processes 2 --health-file {file} --health-port {free_port}"
        " --stalled-after 3"
    ).split()
    health = f"http://127.0.0.1:{free_port}/"
    with working(tmp_path, server.url, QUICK, *options) as command:
        push(queue, 1)
        begun(command, 1)
        wait_until(file.exists, "green")
        frozen = wait_until(lambda: len(command.children()) == 2 and command.children(), "both")
        assert isinstance(frozen, list)
        frozen[0].suspend()
        try:
            # On a busy machine the other process may still be starting, which is red too.
            named = f"503 .*process {frozen[0].pid} "
            wait_until(lambda: re.match(named, refusal(health)), "its name", 40)
            wait_until(lambda: not file.exists(), "red", 20)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                frozen[0].resume()
        wait_until(file.exists, "green again", 20)
        wait_until(lambda: not refusal(health), "200", 20)


def test_no_password_is_shown(tmp_path: Path, free_port: int) -> None:
    url = f"redis://user:hunter2@127.0.0.1:{free_port}/0"
    with working(tmp_path, url, QUICK, "-q", "jobs", "--processes", "2") as command:
        children: Any = wait_until(lambda: len(command.children()) == 2 and command.children(), "2")
        for child in children:
            assert not any("hunter2" in part for part in child.cmdline())
        wait_until(lambda: "look at the queue failed" in command.log(), "the first failure", 30)
    assert "hunter2" not in command.log()


def test_the_folder_of_a_killed_parent_is_deleted_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = "import os, ackq.process.children as c\nwith c.private_folder(): os.kill(os.getpid(), 9)"
    killed = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False
    )
    assert killed.returncode == -9
    (left,) = tmp_path.iterdir()
    (left / "0").write_text("ok")
    foreign = tmp_path / "ackq-work-of-another-version"
    foreign.mkdir()
    with private_folder() as one, private_folder() as other:
        assert {one, other, foreign} == set(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == [foreign]
