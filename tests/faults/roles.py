"""What the processes of these tests do. Each function runs in a process of its own."""

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import redis

import ackq


class Log:
    """Events, one JSON line each, written at once, so that a killed process leaves them all."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, **event: Any) -> None:
        os.write(self._file, json.dumps(event).encode() + b"\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the events of a log; a line that a crash cut short is left out."""
    events = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events


# --- one that kills itself ----------------------------------------------------------


class Boundaries:
    """Counts the instants around each request, and kills this process at one of them."""

    fatal = 0  #: 1 is the instant before the first request; 0: never
    armed = False
    passed = 0

    @classmethod
    def cross(cls) -> None:
        if cls.armed:
            cls.passed += 1
            if cls.passed == cls.fatal:
                os.kill(os.getpid(), signal.SIGKILL)


class MortalConnection(redis.Connection):
    """Crosses a boundary before it sends, after it has sent, and after it has read."""

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        Boundaries.cross()
        super().send_packed_command(command, check_health=check_health)  # type: ignore[no-untyped-call]
        Boundaries.cross()

    def read_response(self, *args: Any, **kwargs: Any) -> Any:
        reply = super().read_response(*args, **kwargs)
        Boundaries.cross()
        return reply


def take_two_then_settle(url: str, name: str, log: Path, fatal: int, lease: float) -> None:
    """Wait for a message, take it, ack it, fuse the ack of the next one, then pop again."""
    pool = redis.ConnectionPool.from_url(url, connection_class=MortalConnection)
    queue = ackq.Queue(redis.Redis(connection_pool=pool), name, visibility_timeout=lease)
    journal = Log(log)
    queue.stats()
    Boundaries.armed, Boundaries.fatal = True, fatal
    first = queue.pop(timeout=20)
    assert first is not None
    queue.ack(first)
    journal.write(acked=first.id)
    second = queue.pop()
    assert second is not None
    queue.pop(ack=[second])
    journal.write(acked=second.id)


# --- one that waits -----------------------------------------------------------------


def wait_for_one(
    url: str, name: str, log: Path, go: Path | None = None, lease: float = 30.0
) -> None:
    """Take one message, however long it takes, and say so; begin when ``go`` exists."""
    queue = ackq.Queue.from_url(url, name, visibility_timeout=lease)
    queue.stats()
    while go is not None and not go.exists():
        time.sleep(0.001)
    message = queue.pop(timeout=60)
    Log(log).write(got=message.id if message else None)


# --- one that forks -----------------------------------------------------------------


def use_on_both_sides_of_a_fork(url: str, name: str, log: Path) -> None:
    """Use one queue object, fork, and go on using it in both processes at once."""
    queue = ackq.Queue.from_url(url, name)
    journal = Log(log)
    queue.push({"id": "before"})
    before = _connections_so_far(url)
    child = os.fork()
    if not child:
        queue.stats()
        os._exit(0)
    os.waitpid(child, 0)
    # Ours is one, since each look needs one; a socket used by both would make it stop there.
    journal.write(side="first child", connected=_connections_so_far(url) - before - 1)
    pid = os.fork()
    side = "parent" if pid else "child"
    pushed, taken, crossed = [], [], 0
    for number in range(100):
        message_id = f"{side}-{number}"
        pushed.append(queue.push({"id": message_id}, dedup=message_id))
        message = queue.pop()
        if message is not None:
            taken.append(message.id)
            crossed += message.json()["id"] != message.id or queue.extend(message) != 1
    journal.write(side=side, pushed=pushed, taken=taken, crossed=crossed)
    if pid:
        _, status = os.waitpid(pid, 0)
        os._exit(status and 1)
    os._exit(0)


def _connections_so_far(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        info: Any = client.info("stats")
        return int(info["total_connections_received"])


# --- ones that never hold for long --------------------------------------------------


def hold_briefly(url: str, name: str, log: Path, seed: int) -> None:
    """Take messages under leases of a few milliseconds, and try to extend them now and then."""
    queue = ackq.Queue.from_url(url, name)
    journal = Log(log)
    draw = random.Random(seed)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        lease = draw.choice([0.001, 0.005, 0.02])
        message = queue.pop(timeout=0.1, visibility_timeout=lease)
        if message is None:
            continue
        time.sleep(draw.choice([0, 0, 0.01, 0.1]))
        try:
            accepted = queue.extend(message, timeout=lease)
        except ackq.LeaseLost:
            accepted = 0
        journal.write(
            id=message.id,
            receipt=message.receipt,
            count=message.receive_count,
            lease=round(lease * 1_000_000),
            ends=round(message.lease_expires_at * 1_000_000),
            accepted=accepted,
        )
