"""Does a deep queue cost more, and how long does recovery block the server?

First pop and ack on a deep queue beside a shallow one, in turns. Then every lease of many
expires at once, and pops bring them back; SLOWLOG tells how long the longest script ran.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

import redis

from ackq import Message, Queue
from ackq.keys import QueueKeys
from benchmarks import report
from benchmarks.contestants.base import Messages
from benchmarks.contestants.leased import LONG
from benchmarks.harness import Ratio, Round, ServerCpu, Spread, paired, rotations
from benchmarks.servers import target

#: Messages of one call while a queue is filled.
CHUNK = 1000
#: Cycles between two refills; the refills are not measured.
BURST = 250
#: Microseconds that a command must take to be looked at.
SLOW_US = 200
#: A script that touches no key.
IDLE_LOOP = "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + i end return n"


class Pile:
    """A queue with ``ready`` messages on the list and ``held`` in flight."""

    def __init__(self, url: str, name: str, ready: int, held: int, seed: int) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url, socket_timeout=60)
        self.keys = QueueKeys.of(name)
        self.queue = Queue(self.client, name, visibility_timeout=LONG)
        self._draw, self._pushed = Messages(seed), 0
        self.client.unlink(*self.keys.all())
        self.push(held)
        while held > 0:
            held -= len(self.queue.pop_many(min(held, CHUNK)))
        self.push(ready)

    def push(self, count: int) -> None:
        """Push ``count`` messages whose ids were never used before."""
        for first in range(0, count, CHUNK):
            bodies = self._draw.many(min(CHUNK, count - first))
            self.queue.push_many(
                [{**body, "id": f"p{self._pushed + at:08d}"} for at, body in enumerate(bodies)]
            )
            self._pushed += len(bodies)

    def expire(self) -> None:
        """End every lease: halve its deadline; and forget the receive counts."""
        self.client.zunionstore(self.keys.backup, {self.keys.backup.decode(): 0.5})
        self.client.unlink(self.keys.receives)

    def close(self) -> None:
        self.queue.close()
        self.client.unlink(*self.keys.all())
        self.client.close()


def pop_and_ack(pile: Pile, bursts: int, cpu: ServerCpu) -> Round:
    """Pop with the ack of the message before, ``bursts`` x `BURST` times; refill in between."""
    seconds = server_seconds = 0.0
    taken: Message | tuple[()] = ()
    for _ in range(bursts):
        cpu_before, before = cpu.seconds(), time.perf_counter()
        for _ in range(BURST):
            taken = pile.queue.pop(ack=taken) or ()
        seconds += time.perf_counter() - before
        server_seconds += cpu.seconds() - cpu_before
        pile.push(BURST)
    if taken:
        pile.queue.ack(taken)
    return Round(bursts * BURST, seconds, server_seconds)


def compare_depths(url: str, settings: argparse.Namespace) -> dict[str, list[Round]]:
    """Measure a deep and a shallow queue in turns."""
    with ExitStack() as stack:
        cpu = ServerCpu(url)
        stack.callback(cpu.close)
        piles = {}
        for name, ready, held in (
            ("shallow", settings.shallow, settings.shallow),
            ("deep", settings.ready, settings.held),
        ):
            piles[name] = Pile(url, f"ackq-benchmark:{name}", ready, held, settings.seed)
            stack.callback(piles[name].close)
            pop_and_ack(piles[name], 1, cpu)
        rounds: dict[str, list[Round]] = {name: [] for name in piles}
        for order in rotations(list(piles), settings.rounds):
            for name in order:
                rounds[name].append(pop_and_ack(piles[name], settings.bursts, cpu))
        return rounds


def recover(pile: Pile, held: int, size: int, url: str) -> dict[str, float]:
    """Take back every expired lease, ``size`` a call, and say how fast and how smoothly."""
    pile.expire()
    pile.client.slowlog_reset()
    came = 0
    with longest_ping(url) as ping:
        before = time.perf_counter()
        while came < held:
            came += len(pile.queue.pop_many(min(size, held - came)))
        seconds = time.perf_counter() - before
    scripts = script_times(pile.client)
    typical = statistics.median(scripts)
    return {
        "messages a second": came / seconds,
        "median script, ms": typical,
        "longest script, ms": max(scripts),
        "longest idle loop as long, ms": longest_idle_loop(pile.client, typical, len(scripts)),
        "longest ping, ms": ping[0] * 1000,
    }


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
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_ping, args=(url, there), daemon=True)
    process.start()
    here.recv()
    result: list[float] = []
    try:
        yield result
    finally:
        here.send(None)
        result.append(here.recv())
        process.join()


def _ping(url: str, pipe: Connection) -> None:
    with redis.Redis.from_url(url) as client:
        client.ping()
        pipe.send(None)
        longest = 0.0
        while not pipe.poll():
            before = time.perf_counter()
            client.ping()
            longest = max(longest, time.perf_counter() - before)
            time.sleep(0.0005)  # leave the processor to the server and its client
    pipe.send(longest)


def measure_recovery(url: str, settings: argparse.Namespace) -> dict[int, list[dict[str, float]]]:
    """Recover everything, several times with each size of call, in turns."""
    held, sizes = settings.expired, (1000, 100)
    pile = Pile(url, "ackq-benchmark:expired", 0, held, settings.seed)
    try:
        with logging_slow_commands(pile.client):
            found: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
            for _ in range(settings.runs):
                for size in sizes:
                    found[size].append(recover(pile, held, size, url))
            return found
    finally:
        pile.close()


def main() -> None:
    """Measure, print, write."""
    options = report.parser("depth", "Pop and ack on a deep queue; recovery of expired leases.")
    for name, default in (("ready", 1_000_000), ("held", 100_000), ("shallow", 1000),
                          ("expired", 1_000_000), ("rounds", 10), ("bursts", 12),
                          ("runs", 5)):  # fmt: skip
        options.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    settings = options.parse_args()
    if settings.smoke:
        settings.ready, settings.held, settings.expired = 3000, 2000, 3000
        settings.rounds, settings.bursts, settings.runs = 2, 1, 1
    with target(settings.url) as server:
        facts = report.circumstances(server, settings)
        print(report.describe(facts), flush=True)
        rounds = compare_depths(server.url, settings)
        recoveries = measure_recovery(server.url, settings)
    depths = {
        name: {
            "client µs a cycle": report.as_figure([each.client_us for each in found]),
            "server µs a cycle": report.as_figure([each.server_us for each in found]),
        }
        for name, found in rounds.items()
    }
    recovery = {
        f"pop_many({size})": {key: report.as_figure([run[key] for run in runs]) for key in runs[0]}
        for size, runs in recoveries.items()
    }
    ratios = ratios_of(rounds, recoveries)
    print(report.figures_table(depths | recovery), end="\n\n")
    print(report.ratio_table("compared", ratios))
    report.write(
        settings.json,
        {
            "benchmark": "depth",
            **facts,
            "contestants": depths | recovery,
            "ratios": [each.as_json() for each in ratios],
        },
    )


def ratios_of(
    rounds: dict[str, list[Round]], recoveries: dict[int, list[dict[str, float]]]
) -> list[Ratio]:
    """Compare the depths round by round, and the longest scripts with what is allowed."""
    deep, shallow = rounds["deep"], rounds["shallow"]
    server = paired(deep, shallow, lambda each: each.server_us)
    client = paired(deep, shallow, lambda each: each.client_us)
    return [
        Ratio("deep / shallow: server time", server, 1.3, ceiling=True),
        Ratio("deep / shallow: client time", client, 1.3, ceiling=True),
        *(
            Ratio(
                f"longest script of pop_many({size}), ms",
                Spread.of([run["longest script, ms"] for run in runs]),
                5,
                ceiling=True,
            )
            for size, runs in recoveries.items()
        ),
    ]


if __name__ == "__main__":
    main()
