"""How long a server was blocked, by its SLOWLOG and by pings, and what the machine adds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import redis

from benchmarks.processes import beside

#: Microseconds that a command must take to be looked at.
SLOW_US = 200
#: A script that touches no key.
IDLE_LOOP = "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + i end return n"


def script_times(client: redis.Redis) -> list[float]:
    """Return the milliseconds of every script in SLOWLOG."""
    entries: Any = client.slowlog_get(100_000)
    found = [each["duration"] / 1000 for each in entries if each["command"][:4] == b"EVAL"]
    return found or [SLOW_US / 1000]


def longest_idle_loop(client: redis.Redis, typical: float, calls: int) -> float:
    """Run a script that only counts, ``typical`` ms long, ``calls`` times; return the longest.

    It shows what the machine adds by itself: a server that is not scheduled seems to block.
    """
    before = time.perf_counter()
    client.eval(IDLE_LOOP, 0, 1_000_000)
    turns = round(1_000_000 * typical / 1000 / (time.perf_counter() - before))
    client.slowlog_reset()
    for _ in range(calls):
        client.eval(IDLE_LOOP, 0, turns)
    return max(script_times(client))


@contextmanager
def logging_slow_commands(client: redis.Redis) -> Iterator[None]:
    """Let SLOWLOG keep whatever takes `SLOW_US`; put the server's settings back afterwards."""
    wanted = {"slowlog-log-slower-than": SLOW_US, "slowlog-max-len": 100_000}
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
    """Ping from another process; the list gets the longest answer in seconds at the end."""
    result: list[float] = []
    with beside(_ping, url) as pinging:
        pinging.recv()
        yield result
        pinging.send("enough")
        result.append(pinging.recv())


def _ping(pipe: Connection, url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.ping()
        pipe.send("ready")
        longest = 0.0
        while not pipe.poll():
            before = time.perf_counter()
            client.ping()
            longest = max(longest, time.perf_counter() - before)
            time.sleep(0.002)  # leave the processors to the server and its client
    pipe.send(longest)
