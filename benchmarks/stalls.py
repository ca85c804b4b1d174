"""Measure how long a server was blocked, by SLOWLOG and by pings, and what the machine adds."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import redis

from benchmarks.processes import beside

#: Shortest command to look at, in microseconds.
SLOW_US = 200
#: Longest time, in seconds, to wait for a ping: long, since blocked servers are what is measured.
LONGEST = 300
#: A script that touches no key.
IDLE_LOOP = "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + i end return n"
IDLE_SHA = hashlib.sha1(IDLE_LOOP.encode()).hexdigest().encode()


def script_times(client: redis.Redis, sha: bytes | None = None) -> list[float]:
    """Return the milliseconds of every script in SLOWLOG, or of the one with this ``sha``."""
    entries: Any = client.slowlog_get(100_000)
    begins = b"EVAL" if sha is None else b"EVALSHA " + sha
    found = [entry["duration"] / 1000 for entry in entries if entry["command"].startswith(begins)]
    return found or ([SLOW_US / 1000] if sha is None else [])


def milliseconds() -> float:
    """Return the time by a clock that is never set."""
    return time.perf_counter() * 1000


def longest_idle_loop(client: redis.Redis, typical: float, calls: int) -> float:
    """Run a ``typical`` ms long counting script ``calls`` times; return the longest time.

    It shows what the machine itself adds: a server that is not scheduled seems to block.
    """
    run_idle_loops(client, typical, calls)
    return max(script_times(client))


def run_idle_loops(
    client: redis.Redis, typical: float, calls: int, clock: Callable[[], float] = milliseconds
) -> None:
    """Run a counting script ``calls`` times, ``typical`` ms by this clock; empty SLOWLOG before."""
    sha = IDLE_SHA.decode()
    client.script_load(IDLE_LOOP)
    before = clock()
    client.evalsha(sha, 0, 1_000_000)
    turns = round(1_000_000 * typical / (clock() - before))
    client.slowlog_reset()
    for _ in range(calls):
        client.evalsha(sha, 0, turns)


@contextmanager
def logging_slow_commands(client: redis.Redis, slow_us: int = SLOW_US) -> Iterator[None]:
    """Let SLOWLOG record commands from ``slow_us`` on; restore the server's settings at the end."""
    wanted = {"slowlog-log-slower-than": slow_us, "slowlog-max-len": 100_000}
    found: dict[str, Any] = {name: client.config_get(name)[name] for name in wanted}
    try:
        for name, value in wanted.items():
            client.config_set(name, value)
        yield
    finally:
        for name, value in found.items():
            client.config_set(name, value)


@contextmanager
def longest_ping(url: str) -> Iterator[list[float]]:
    """Ping from another process; append the longest response time, in seconds, at the end."""
    with pinging() as pings, pings.longest(url) as result:
        yield result


@contextmanager
def pinging() -> Iterator[Pings]:
    """Start a process that pings when it is asked to, so that only one is started for many runs."""
    with beside(_ping) as pipe:
        yield Pings(pipe)


class Pings:
    """A process that pings a server while something else loads it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    @contextmanager
    def longest(self, url: str) -> Iterator[list[float]]:
        """Do the same as `longest_ping`."""
        self._pipe.send(url)
        self._pipe.recv()
        result: list[float] = []
        yield result
        self._pipe.send("enough")
        result.append(self._pipe.recv())


def _ping(pipe: Connection) -> None:
    while True:
        try:
            url = pipe.recv()
        except EOFError:
            return
        with redis.Redis.from_url(url, socket_timeout=LONGEST) as client:
            client.ping()
            pipe.send("ready")
            longest = 0.0
            while not pipe.poll():
                before = time.perf_counter()
                _await_answer(client)
                longest = max(longest, time.perf_counter() - before)
                time.sleep(0.002)  # leave the processors to the server and its client
        pipe.recv()
        pipe.send(longest)


def _await_answer(client: redis.Redis) -> None:
    while True:
        try:
            client.ping()
            return
        except redis.ResponseError:  # BUSY, after 5 s of one script: that is no answer yet
            time.sleep(0.002)
