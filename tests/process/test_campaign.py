"""Worker processes under kills, freezes and restarts of Redis: nothing lost, all explained.

Four processes, handlers of which a twentieth straddle their lease, and a fault about every
second: 600 messages in some 12 seconds, and 20,000 in the campaign. ``ACKQ_SOAK=5`` makes it five
times as many.
"""

import contextlib
import os
import random
import shutil
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

import ackq
from ackq.embedded import Server
from tests.servers import private_server
from tests.waiting import wait_until
from tests.worker.conftest import settled

from .commands import Command, working
from .jobs import seconds_of

LEASE = 1.0
SOAK = float(os.environ.get("ACKQ_SOAK", "1"))
#: Seconds that the server, a process or this machine may take its time before that explains the end
#: of a lease: leases are renewed after a third of their time.
STALL = LEASE / 4
#: Pushed in a second.
RATE = 120
JOBS = "tests.process.jobs:"


@dataclass
class Chaos:
    """Does harm until it is stopped, and records what happened when."""

    server: Server
    command: Command
    draw: random.Random
    #: Processes that were killed, that got a signal to end, and that got a second one.
    killed: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    hurried: set[int] = field(default_factory=set)
    #: Spans in which one was frozen, or the server was away.
    frozen: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    #: Spans in which one was not run, as it noticed itself.
    starved: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    outages: list[tuple[float, float]] = field(default_factory=list)
    #: Spans in which no lease could be renewed in time: the disk or the machine was too busy.
    stalls: list[tuple[float, float]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    settled: threading.Event = field(default_factory=threading.Event)
    faults: int = 0

    def run(self) -> None:
        while not self.stopped.wait(self.draw.uniform(0.4, 1.2)):
            fault = self.draw.choices(
                [self.kill, self.freeze, self.end, self.restart], [4, 3, 2, 2]
            )
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                fault[0]()
                self.faults += 1

    def watch(self) -> None:
        """Note when the server, or this machine, takes its time."""
        with redis.Redis.from_url(self.server.url, retry=None) as client:
            begin = time.monotonic()
            while not self.settled.wait(0.02):
                with contextlib.suppress(redis.RedisError):
                    client.ping()
                end = time.monotonic()
                if end - begin > STALL:
                    self.stalls.append((begin, end))
                begin = end

    def victim(self) -> psutil.Process:
        return self.draw.choice(self.command.children())

    def kill(self) -> None:
        victim = self.victim()
        self.killed.add(victim.pid)
        victim.kill()

    def end(self) -> None:
        victim = self.victim()
        (self.hurried if victim.pid in self.asked else self.asked).add(victim.pid)
        victim.send_signal(signal.SIGTERM)

    def freeze(self) -> None:
        victim, begin = self.victim(), time.monotonic()
        victim.suspend()
        time.sleep(LEASE * self.draw.uniform(1.1, 1.8))
        victim.resume()
        self.frozen[victim.pid].append((begin, time.monotonic()))

    def restart(self) -> None:
        begin = time.monotonic()
        self.server.kill()
        self.server.start()
        self.outages.append((begin, time.monotonic()))

    def explains(self, delivery: dict[str, Any], next_at: float) -> bool:
        """Whether a message may be delivered again after this delivery."""
        if delivery["pid"] in self.killed | self.hurried:
            return True
        pid = delivery["pid"]
        spans = [*self.frozen[pid], *self.starved[pid], *self.outages, *self.stalls]
        # What was in hand, or on its way to be settled, when it happened.
        return any(begin < next_at and end > delivery["at"] - 2 * LEASE for begin, end in spans)


def push_all(url: str, name: str, messages: list[dict[str, Any]]) -> None:
    """Push each once, through every outage."""
    with ackq.Queue.from_url(url, name) as queue:
        started = time.monotonic()
        for number, message in enumerate(messages):
            while True:
                with contextlib.suppress(redis.RedisError, ackq.AckqError):
                    queue.push(message, dedup=message["id"])
                    break
                time.sleep(0.05)
            time.sleep(max(0.0, started + number / RATE - time.monotonic()))


def all_settled(queue: ackq.Queue) -> Callable[[], bool]:
    def check() -> bool:
        try:
            return settled(queue)
        except (redis.RedisError, ackq.AckqError):
            return False

    return check


@pytest.mark.timeout(900 * max(1, SOAK))
@pytest.mark.parametrize("messages", [600, pytest.param(20_000, marks=pytest.mark.campaign)])
@pytest.mark.parametrize(
    "handler", ["scripted", pytest.param("scripted_async", marks=pytest.mark.campaign)]
)
def test_nothing_is_lost_and_every_duplicate_is_explained(
    tmp_path: Path, handler: str, messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCH_ITSELF", str(STALL))
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    executable = shutil.which("redis-server")
    with private_server(tmp_path / "server", Path(executable) if executable else None) as server:
        ids = [f"m{number}" for number in range(int(messages * SOAK))]
        with (
            working(
                tmp_path,
                server.url,
                f"tests.process.jobs:{handler}",
                "-q",
                "jobs",
                "--processes",
                "4",
                "--lease",
                str(LEASE),
                "--grace",
                "4",
                "--stalled-after",
                "5",
            ) as command,
            ackq.Queue.from_url(server.url, "jobs") as queue,
        ):
            wait_until(lambda: len(command.children()) == 4, "four processes", 30)
            chaos = Chaos(server, command, random.Random(seed))
            threads = [threading.Thread(target=each) for each in (chaos.run, chaos.watch)]
            for thread in threads:
                thread.start()
            try:
                pushed = [{"id": each, "seconds": seconds_of(each, LEASE)} for each in ids]
                push_all(server.url, "jobs", pushed)
                chaos.stopped.set()
                threads[0].join()
                wait_until(all_settled(queue), "the rest to be handled", 90)
            finally:
                chaos.stopped.set()
                chaos.settled.set()
                for thread in threads:
                    thread.join()
            assert command.process.poll() is None
            assert queue.audit().sound
            assert queue.stats().dead == 0
        for stall in command.events("stall"):
            chaos.starved[stall["pid"]].append((stall["begin"], stall["end"]))
        events = [*command.events("begin"), *command.events("end")]
        check(ids, events, chaos)
        print(
            f"{command.log().count('lost its lease')} leases were lost, and the worker reported it"
        )


@pytest.mark.campaign
@pytest.mark.timeout(900 * max(1, SOAK))
@pytest.mark.parametrize("handler", ["stuck", "stuck_async"])
def test_stuck_handlers_and_replaced_processes_under_kills_lose_nothing(
    tmp_path: Path, handler: str
) -> None:
    """One message in fifty never ends at its first delivery, and the parent kills its process."""
    executable = shutil.which("redis-server")
    with private_server(tmp_path / "server", Path(executable) if executable else None) as server:
        ids = [f"m{number}" for number in range(int(3000 * SOAK))]
        limits = ("--time-limit", "0.6", "--kill-after", "0.3", "--max-messages", "100")
        settings = ("--processes", "4", "--lease", "5", "--max-receives", "12", *limits)
        with (
            working(tmp_path, server.url, f"{JOBS}{handler}", "-q", "jobs", *settings) as command,
            ackq.Queue.from_url(server.url, "jobs") as queue,
        ):
            wait_until(lambda: len(command.children()) == 4, "four processes", 30)
            chaos = Chaos(server, command, random.Random())
            thread = threading.Thread(target=chaos.run)
            thread.start()
            try:
                stuck = {*ids[::50]}
                messages = [{"id": each, "seconds": 0.01, "stuck": each in stuck} for each in ids]
                push_all(server.url, "jobs", messages)
            finally:
                chaos.stopped.set()
                thread.join()
            wait_until(all_settled(queue), "the rest to be handled", 300)
            assert queue.audit().sound
            assert queue.stats().dead == 0
        log = command.log()
        assert {event["id"] for event in command.events("end")} == {*ids}
        print(
            f"{len(ids)} messages, {chaos.faults} faults, {log.count('in time: killed')} processes"
            f" killed for their handlers, {log.count('starting another')} replaced: 0 lost, 0 dead"
        )


def check(ids: list[str], events: list[dict[str, Any]], chaos: Chaos) -> None:
    deliveries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    ended = {(each["id"], each["receipt"]) for each in events if each["event"] == "end"}
    # By the server's clock: what was frozen between its take and its handler begins late.
    for event in sorted(events, key=lambda each: int(each["receipt"])):
        if event["event"] == "begin":
            deliveries[event["id"]].append(event)
    assert set(deliveries) <= set(ids)
    lost = sorted(set(ids) - {message for message, _ in ended})
    assert not lost, f"lost: {lost[:10]}"
    # A stale ack that was accepted would leave the latest delivery unfinished for ever.
    # The latest by its receipt: a frozen process logs its delivery only when it continues.
    latest = {
        message_id: max(event["receipt"] for event in deliveries[message_id]) for message_id in ids
    }
    unfinished = [message_id for message_id in ids if (message_id, latest[message_id]) not in ended]
    assert not unfinished, f"settled by a process that did not hold them: {unfinished[:10]}"
    again = 0
    unexplained = []
    for each in ids:
        for before, after in zip(deliveries[each], deliveries[each][1:], strict=False):
            again += 1
            if not chaos.explains(before, after["at"]):
                unexplained.append((before, after))
    assert not unexplained, f"{len(unexplained)} of {again}: {unexplained[:3]}"
    print(
        f"{len(ids)} messages, {chaos.faults} faults ({len(chaos.killed)} kills,"
        f" {len(chaos.hurried)} asked twice to end, {sum(map(len, chaos.frozen.values()))} freezes,"
        f" {len(chaos.outages)} server kills, {len(chaos.stalls)} stalls):"
        f" 0 lost, {again} delivered again, all explained"
    )
