"""Worker processes in the list of workers: killed, frozen, quiet, stopped, cut off."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import psutil
import pytest
import redis

import ackq
from ackq.cli import main
from ackq.embedded import Server
from ackq.ops.worker_info import WorkerInfo
from ackq.ops.workers import workers
from ackq.queue.keys import QueueKeys
from tests.waiting import wait_until
from tests.worker.conftest import settled

from .commands import working
from .test_processes import SCRIPTED, begun, push

#: Heartbeats every 0.3 s: late after 0.6 s, not listed after 1.8 s.
OFTEN = ("--heartbeat", "0.3")
LATE, GONE = 0.6, 1.8
List = Callable[[], list[WorkerInfo]]
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def listed(client: redis.Redis, token: str) -> List:
    return lambda: workers(client, [token])


@pytest.fixture
def run(server: Server, token: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``run("quiet", NAME)``: ``ackq workers``, without a command for the test's queue only."""
    monkeypatch.setenv("ACKQ_REDIS_URL", server.url)

    def invoke(*args: str, code: int = 0) -> str:
        result = click.testing.CliRunner().invoke(main, ["workers", *args, "-q", token])
        assert result.exit_code == code, result.output
        return result.output

    return invoke


def known(listed: List, count: int) -> list[WorkerInfo]:
    wait_until(lambda: len(listed()) == count, f"{count} workers", 40)
    return listed()


def now(client: redis.Redis) -> float:
    seconds, microseconds = client.time()
    return int(seconds) + int(microseconds) / 1_000_000


def test_a_killed_worker_disappears_by_itself(
    tmp_path: Path, server: Server, queue: ackq.Queue, client: redis.Redis, listed: List
) -> None:
    push(queue, 1, 60)
    with working(tmp_path, server.url, SCRIPTED, "-q", queue.name, *OFTEN) as command:
        (found,) = wait_until(lambda: [each for each in listed() if each.busy], "the worker", 40)
        assert [each.message_id for each in found.running] == ["m0"]
        (child,) = command.children()
        assert found.pid == child.pid
        command.process.kill()  # so that no other process takes its place
        child.kill()
        late = wait_until(lambda: [each for each in listed() if each.late], "it to be late")
        assert late[0].id == found.id
        assert now(client) - late[0].seen_at > LATE
        assert [each.message_id for each in late[0].running] == ["m0"], "what it died with"
        wait_until(lambda: not listed(), "it to disappear")
        assert now(client) - late[0].seen_at > GONE
        wait_until(lambda: not client.exists(*QueueKeys.of(queue.name).workers), "its keys")


@pytest.mark.parametrize(
    "handler", [SCRIPTED, pytest.param(SCRIPTED + "_async", marks=pytest.mark.campaign)]
)
def test_quiet_and_stop_let_a_job_straddle_its_lease(
    tmp_path: Path,
    server: Server,
    queue: ackq.Queue,
    listed: List,
    run: Callable[..., Any],
    handler: str,
) -> None:
    push(queue, 1, 3)
    options = ("-q", queue.name, "--lease", "1", "--name", "mailer", "--prefetch", "0", *OFTEN)
    with working(tmp_path, server.url, handler, *options) as command:
        begun(command, 1)
        (found,) = known(listed, 1)
        assert run("quiet", "mailer").split() == [found.id]
        wait_until(lambda: listed()[0].state == "quieting", "it to obey")
        push(queue, 1, 0, "later")
        run("quiet", "mailer", "--wait", "0", code=1)  # its job still runs
        run("quiet", "mailer", "--wait", "40")
        assert listed()[0].state == "quiet"
        assert [event["id"] for event in command.events("end")] == ["m0"]
        run("resume", "mailer", "--wait", "40")
        wait_until(lambda: settled(queue), "the later message", 40)
        push(queue, 1, 3, "last")
        begun(command, 3)
        assert run("stop", "mailer", "--wait", "40").split() == [found.id]
        assert listed() == []
        assert command.wait() == 0
    assert "starting another" not in command.log()
    events = command.events()
    assert [event["id"] for event in events if event["event"] == "end"] == ["m0", "later0", "last0"]
    assert {event["count"] for event in events} == {1}
    assert not any(event["lost"] for event in events)
    assert settled(queue)


def test_each_process_is_listed_and_can_be_stopped_alone(
    tmp_path: Path, server: Server, queue: ackq.Queue, listed: List, run: Callable[..., Any]
) -> None:
    options = ("-q", queue.name, "--processes", "3", "--name", "mailer", *OFTEN)
    with working(tmp_path, server.url, SCRIPTED, *options) as command:
        found = known(listed, 3)
        assert {each.pid for each in found} == {child.pid for child in command.children()}
        assert {each.name for each in found} == {"mailer"}
        run("stop", found[0].id, "--wait", "40")
        run("quiet", found[1].id, "--wait", "40")
        push(queue, 5)
        wait_until(lambda: settled(queue), "the messages", 40)
        assert {event["pid"] for event in command.events()} == {found[2].pid}
        left = {found[1].pid, found[2].pid}
        wait_until(lambda: {child.pid for child in command.children()} == left, "its end", 40)
        # A process that dies is still replaced.
        psutil.Process(found[1].pid).kill()
        wait_until(
            lambda: (
                len([each for each in listed() if not each.late]) == 2
                and found[1].id not in {each.id for each in listed()}
            ),
            "its successor",
            40,
        )
        run("stop", "mailer", "--wait", "40")
        assert command.wait() == 0
    assert "worker process 0 ended" not in command.log().replace("(-9)", "")


def test_the_command_prints_hostile_texts_safely(
    server: Server, queue: ackq.Queue, run: Callable[..., Any], listed: List
) -> None:
    from ackq.worker.presence import heartbeat

    hostile = "\x1b[2J\u202evil\n"
    record = {
        "name": hostile,
        "host": hostile,
        "version": hostile,
        "state": hostile,
        "queues": [hostile],
        "running": [[hostile, 1]],
        "interval": 5,
        "lifetime": 60,
    }
    worker = "\x1b]0;pwned\x07"
    queue.execute(heartbeat, worker, json.dumps(record).encode(), 60.0, b"")
    outputs = [
        run(),
        run("--json"),
        run("busy"),
        run("busy", "--json"),
        run("quiet", hostile),
        run("stop", worker),
        run("quiet", hostile, "--wait", "0", code=1),
    ]
    for output in outputs:
        assert output.strip()
        assert not set(output) & {"\x1b", "\x07", "\u202e"}
        assert "vil" in output or "pwned" in output
    assert all(line.startswith("{") for line in outputs[1].splitlines())
    assert len(outputs[0].splitlines()) == 1
    assert json.loads(outputs[1])["name"] == hostile


def test_an_unknown_name_is_reported_and_the_others_are_ordered(
    server: Server, queue: ackq.Queue, run: Callable[..., Any], listed: List
) -> None:
    from ackq.worker.presence import heartbeat

    queue.execute(heartbeat, "host:1:a", b'{"name": "mailer"}', 60.0, b"")
    output = run("quiet", "absent", "mailer", code=1)
    assert "there is no worker 'absent'" in output
    assert listed()[0].order == "quiet"
    assert run("resume", "absent", code=1).count("absent") == 1


def test_options_before_the_command_are_an_error(run: Callable[..., Any]) -> None:
    for early in (["--json"], ["-q", "jobs"], ["--url", "redis://127.0.0.1:1"]):
        result = click.testing.CliRunner().invoke(main, ["workers", *early, "quiet", "mailer"])
        assert result.exit_code == 2
        assert "after the command" in result.output
