"""A message that ends its process takes no other message along."""

import json
import signal
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

import ackq
from ackq.embedded import Server
from ackq.process.abandoned_messages import opened, settle
from ackq.process.held_messages import RUNNING, Held
from ackq.process.quarantine import Quarantine
from ackq.queue.messages import Message
from ackq.worker.policy import Settlement
from tests.waiting import wait_until
from tests.worker.conftest import settled

from .commands import Command, working

KILLERS = "tests.process.killers:"
pytestmark = pytest.mark.timeout(300)

#: Each starts several processes, so the ordinary run has one; see `test_crashes` for another.
QUICK = (("handle", "signal"),)


def begun(command: Command, count: int) -> bool:
    return len(command.events("begin")) >= count


def ended(command: Command, queue: ackq.Queue) -> bool:
    return bool(queue.stats().dead) or command.process.poll() is not None


@pytest.mark.parametrize(
    ("handler", "way"),
    [
        pytest.param(handler, way, marks=() if (handler, way) in QUICK else pytest.mark.campaign)
        for handler in ("handle", "handle_async")
        for way in ("kill", "signal", "exit", "leave", "segfault", "memory")
    ],
)
def test_only_the_message_that_ends_its_process_dies(
    tmp_path: Path, server: Server, queue: ackq.Queue, handler: str, way: str
) -> None:
    queue.push_many({"id": f"i{n}"} for n in range(6))
    queue.push({"id": "killer", "way": way, "seconds": 0.2})
    queue.push_many({"id": f"j{n}", "seconds": 0.25} for n in range(6))
    options = ("-q", queue.name, "--max-receives", "2", "--lease", "600", "--concurrency", "16")
    with working(tmp_path, server.url, KILLERS + handler, *options) as command:
        wait_until(lambda: queue.stats().dead == 1, "the dead letter", 120)
        wait_until(lambda: queue.stats().in_flight == 0, "the others", 120)
        begins, log = command.events("begin"), command.log()
        started = {event["pid"]: event["started"] for event in command.events("import")}
    (dead,) = queue.dead_letters()
    assert (dead.id, dead.receive_count) == ("killer", 2), log
    how = {
        "kill": "signal SIGKILL",
        "signal": f"signal {signal.SIGRTMIN + 1}",
        "exit": "exit code 9",
        "leave": "exit code 0",
        "segfault": "signal SIGSEGV",
        "memory": "signal SIGABRT",
    }
    assert dead.reason == f"ended its process, {how[way]}"
    assert dead.errors[-1].text == dead.cause == dead.reason
    counts = Counter(event["id"] for event in begins)
    assert counts.pop("killer") == 3
    assert len(counts) == 12
    assert max(counts.values()) <= 3
    crash = [event["at"] for event in begins if event["id"] == "killer"][1]
    waited = {event["pid"] for event in begins if event["at"] > crash and event["id"] != "killer"}
    assert waited
    assert all(started[pid] < crash for pid in waited), "suspects waited for the start of a process"


def test_a_suspect_keeps_its_lease_until_it_runs(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    """Its process starts, and another suspect runs there, for longer than the lease lasts."""
    queue.push_many([{"id": "a", "seconds": 2.1}, {"id": "b"}])
    queue.with_config(max_receives=None).pop_many(2, visibility_timeout=0.001)
    wait_until(lambda: queue.stats().expired == 2, "the end of the leases")
    options = ("-q", queue.name, "--max-receives", "1", "--lease", "2")
    gate = tmp_path / "gate"
    variables = {"SECOND_WAITS_FOR": str(gate)}
    with (
        redis.Redis.from_url(server.url) as client,
        working(tmp_path, server.url, KILLERS + "handle", *options, variables=variables) as command,
    ):

        def end_of_lease() -> Any:
            return client.zrange(f"{queue.name}BACKUP", 0, 0, withscores=True)[0][1]

        wait_until(lambda: len(command.children()) == 2, "the process of suspects", 60)
        first = end_of_lease()
        wait_until(lambda: end_of_lease() > first + 2_000_000, "renewals for a whole lease", 60)
        gate.touch()
        wait_until(lambda: settled(queue), "both", 120)
        assert [event["count"] for event in command.events("begin")] == [2, 2], command.log()


@pytest.mark.parametrize(
    "handler", ["handle", pytest.param("handle_async", marks=pytest.mark.campaign)]
)
def test_a_machine_that_goes_down_twice_buries_nobody(
    tmp_path: Path, server: Server, queue: ackq.Queue, handler: str
) -> None:
    """All its processes are killed at once, while each message is in its last delivery."""
    queue.push_many({"id": f"m{n}", "seconds": 0.4} for n in range(24))
    options = ("-q", queue.name, "--max-receives", "1", "--lease", "2", "--concurrency", "12")
    for crash in range(3):
        with working(tmp_path, server.url, KILLERS + handler, *options) as command:
            if crash == 2:
                wait_until(lambda: settled(queue), "all", 120)
                break
            some = len(command.events("begin")) + 6 - 5 * crash
            wait_until(partial(begun, command, some), "some", 120)
            tree = [psutil.Process(command.pid), *command.children()]
            for process in tree:
                process.suspend()
            for process in tree:
                process.kill()
    assert queue.stats().dead == 0


def test_a_message_that_takes_its_machine_down_is_dead_after_one_more_delivery(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    queue.push_many({"id": f"i{n}"} for n in range(5))
    queue.push({"id": "killer", "way": "machine"})
    queue.push_many({"id": f"j{n}"} for n in range(5))
    options = ("-q", queue.name, "--max-receives", "1", "--lease", "1", "--concurrency", "4")
    crashes = 0
    while not queue.stats().dead:
        with working(tmp_path, server.url, KILLERS + "handle", *options) as command:
            wait_until(partial(ended, command, queue), "an end", 120)
            crashes += not queue.stats().dead
            if not queue.stats().dead:
                continue
            wait_until(lambda: settled(queue), "the others", 120)
    (dead,) = queue.dead_letters()
    assert dead.id == "killer"
    assert "ended its process" in dead.errors[-1].text
    assert crashes == 2


class Supervised:
    """A quarantine, and what its process gets."""

    def __init__(self, url: str, queue: ackq.Queue) -> None:
        self.quarantine = Quarantine(lambda: url, partial(settle, url))
        self._config = queue.config
        self.sent: list[bytes] = []

    def held(self, message: Message) -> Held:
        return Held(message, self._config, RUNNING, False, Settlement("nack", 0.0), 0, 2)

    def send(self) -> None:
        wait_until(lambda: self.quarantine.due, "renewed leases")
        self.quarantine.send(self._write)

    def _write(self, line: bytes) -> bool:
        self.sent.append(line)
        return True

    def sent_ids(self) -> list[str]:
        return [b64decode(json.loads(line)[2]).decode() for line in self.sent]


def test_what_the_process_of_suspects_has_settled_does_not_start_another(
    server: Server, queue: ackq.Queue
) -> None:
    queue.push_many({"id": f"m{n}"} for n in range(2))
    first, second = queue.pop_many(2)
    run = Supervised(server.url, queue)
    run.quarantine.take([run.held(first), run.held(second)])
    run.send()
    queue.nack(first, delay=60)
    run.quarantine.process_crashed(-9, [], on_purpose=False)
    assert not run.quarantine.due
    wait_until(lambda: len(run.quarantine) == 1, "the end of the other lease")
    run.send()
    queue.nack(second, delay=60)
    run.quarantine.process_finished()
    assert not len(run.quarantine)
    assert run.sent_ids() == ["m0", "m1", "m1"]


def test_suspects_that_have_ended_the_process_run_after_the_others(
    server: Server, queue: ackq.Queue
) -> None:
    queue.push_many({"id": f"m{n}"} for n in range(3))
    run = Supervised(server.url, queue)
    held = [run.held(message) for message in queue.pop_many(3)]
    run.quarantine.take(held)
    run.send()
    assert run.quarantine.process_crashed(-9, held[:1], on_purpose=False)
    run.send()
    assert run.sent_ids() == ["m0", "m1", "m2", "m1", "m2", "m0"]
    run.quarantine.process_crashed(-9, [], on_purpose=True)
    run.quarantine.end()


@pytest.mark.parametrize("delay", [0.0, 60.0])
def test_a_delivery_that_ended_its_process_counts_also_if_the_supervisor_stops(
    server: Server, queue: ackq.Queue, delay: float
) -> None:
    queue.push_many({"id": f"m{n}"} for n in range(2))
    run = Supervised(server.url, queue)
    held = [
        replace(run.held(message), settlement=Settlement("nack", delay))
        for message in queue.pop_many(2)
    ]
    run.quarantine.take(held)
    run.send()
    assert run.quarantine.process_crashed(9, held[:1], on_purpose=False)
    run.quarantine.end()
    wait_until(lambda: not queue.stats().in_flight, "the end of both leases")
    seen = {each.id: each for each in (*queue.peek(2), *queue.peek(2, "delayed"))}
    assert [failure.text for failure in seen["m0"].errors] == ["ended its process, exit code 9"]
    assert bool(queue.stats().delayed) == bool(delay)
    queue.run_now(ids=["m0"])
    counts = {message.id: message.receive_count for message in queue.pop_many(2)}
    assert counts == {"m0": 2, "m1": 1}


def test_the_keeper_of_leases_goes_on_after_any_error(
    server: Server, queue: ackq.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[bool] = []

    def opened_second(*args: Any) -> ackq.Queue:
        if not failed:
            failed.append(True)
            raise ZeroDivisionError
        return opened(*args)

    monkeypatch.setattr("ackq.process.quarantine.opened", opened_second)
    queue.push({"id": "a"})
    run = Supervised(server.url, queue)
    message = queue.pop(visibility_timeout=2)
    assert message is not None
    run.quarantine.take([run.held(message)])
    wait_until(lambda: (queue.stats().lease_ends_in or 0) > 5, "the renewed lease")
    assert failed
    run.quarantine.end()
