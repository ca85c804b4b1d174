"""Does a deep queue cost more, and how long does recovery block the server?

First, pop and ack run on queues of several depths, in turns. Then many leases expire at once and
pops redeliver the messages. SLOWLOG shows how long the longest script ran.
"""

import statistics
import time
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import redis

from ackq import Message, Queue
from ackq.bench.contestants import LONG
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.messages import Messages
from ackq.bench.rounds import Round, Rounds, ServerCpu, in_turns, ratio
from ackq.queue.keys import QueueKeys
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import target
from benchmarks.stalls import logging_slow_commands, longest_idle_loop, longest_ping, script_times

PURPOSE = "Pop and ack on deep queues; recovery of expired leases."
#: Queues of which one number grows, and the queue with most of both.
GROWING = ("ackq, more ready", "ackq, more in flight")
DEEPEST = "ackq, most of both"
#: Messages of one call while a queue is filled.
CHUNK = 1000
#: Cycles between two refills; the refills are not measured.
BURST = 250
#: Messages that one pop_many asks for in recovery.
SIZES = (1000, 100)
#: The figures of a recovery, and their units.
FIGURES = {
    "recovered": "messages/s",
    "median script": "ms",
    "longest script": "ms",
    "longest idle loop as long": "ms",
    "longest ping": "ms",
}


def options(options: Options) -> None:
    """Add the options."""
    options.size(
        "ready",
        (1000, 10_000, 100_000, 1_000_000, 5_000_000),
        quick=(1000, 100_000, 1_000_000),
        smoke=(1000, 3000),
        help="messages",
    )
    options.size(
        "held",
        (0, 1000, 10_000, 100_000, 1_000_000),
        quick=(0, 1000, 100_000),
        smoke=(0, 1000, 2000),
        help="messages in flight",
    )
    options.size("rounds", 10, quick=4, smoke=2, help="of each depth")
    options.size("bursts", 8, quick=4, smoke=1, help=f"of {BURST} cycles, in a round")
    options.size("expired", 1_000_000, quick=200_000, smoke=3000, help="leases that end at once")
    options.size("runs", 7, quick=3, smoke=1, help="recoveries with each size of a call")


class Depth(NamedTuple):
    """A number of ready messages and of messages in flight."""

    ready: int
    held: int

    def __str__(self) -> str:
        return f"{self.ready:,} ready, {self.held:,} in flight"


class Pile:
    """A queue of some depth."""

    def __init__(self, url: str, name: str, depth: Depth, seed: int) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url, socket_timeout=60)
        self.keys = QueueKeys.of(name)
        self.queue = Queue(self.client, name, visibility_timeout=LONG)
        self._draw, self._pushed = Messages(seed), 0
        self.client.unlink(*self.keys.all())
        self.push(depth.held)
        held = depth.held
        while held > 0:
            held -= len(self.queue.pop_many(min(held, CHUNK)))
        self.push(depth.ready)

    def push(self, count: int) -> None:
        """Push ``count`` messages with new ids."""
        for first in range(0, count, CHUNK):
            bodies = self._draw.many(min(CHUNK, count - first))
            self.queue.push_many(
                [{**body, "id": f"p{self._pushed + at:08d}"} for at, body in enumerate(bodies)]
            )
            self._pushed += len(bodies)

    def expire(self) -> None:
        """End every lease by halving its deadline, and delete the receive counts."""
        self.client.zunionstore(self.keys.backup, {self.keys.backup.decode(): 0.5})
        self.client.unlink(self.keys.receives)
        # A server thread frees the memory in the background, which would disturb the measurement.
        while self.client.info("memory")["lazyfree_pending_objects"]:
            time.sleep(0.01)

    def close(self) -> None:
        self.queue.close()
        self.client.unlink(*self.keys.all())
        self.client.close()


def pop_and_ack(pile: Pile, bursts: int, cpu: ServerCpu) -> Round:
    """Pop with the ack of the previous message, ``bursts`` x `BURST` times; refill in between."""
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


def depths_of(settings: Settings) -> dict[tuple[str, int], Depth]:
    """Return the depths by what grows and how far. The deepest queue has the most of both."""
    least = min(settings.ready)
    shallow = Depth(least, min(settings.held, key=lambda held: abs(held - least)))
    found = {(GROWING[0], ready): Depth(ready, shallow.held) for ready in settings.ready}
    found |= {(GROWING[1], held): Depth(shallow.ready, held) for held in settings.held}
    found[DEEPEST, max(settings.ready)] = Depth(max(settings.ready), max(settings.held))
    return found


def compare_depths(url: str, depths: set[Depth], settings: Settings) -> Rounds:
    """Measure queues of all depths in turns."""
    with ExitStack() as stack:
        cpu = ServerCpu(url)
        stack.callback(cpu.close)
        piles = {}
        for depth in sorted(depths):
            progress(f"filling: {depth}")
            name = f"ackq-benchmark:{depth.ready}-{depth.held}"
            pile = piles[str(depth)] = Pile(url, name, depth, settings.seed)
            stack.callback(pile.close)
            pop_and_ack(pile, 1, cpu)
        turns = {
            depth: partial(pop_and_ack, pile, settings.bursts, cpu) for depth, pile in piles.items()
        }
        return in_turns(turns, settings.rounds)


def recover(pile: Pile, held: int, size: int, url: str) -> dict[str, float]:
    """Redeliver every expired lease, ``size`` per call; return how fast and how smoothly."""
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
        "recovered": came / seconds,
        "median script": typical,
        "longest script": max(scripts),
        "longest idle loop as long": longest_idle_loop(pile.client, typical, len(scripts)),
        "longest ping": ping[0] * 1000,
    }


def measure_recovery(url: str, settings: Settings) -> dict[str, list[dict[str, float]]]:
    """Measure the full recovery several times with each call size, in turns."""
    held = settings.expired
    progress(f"recovering {held:,} expired leases")
    pile = Pile(url, "ackq-benchmark:expired", Depth(0, held), settings.seed)
    try:
        with logging_slow_commands(pile.client):
            recover(pile, held, CHUNK, url)
            turns = {f"{size}": partial(recover, pile, held, size, url) for size in SIZES}
            return in_turns(turns, settings.runs)
    finally:
        pile.close()


def run(settings: Settings) -> Result:
    """Measure depths, then recovery."""
    with target(settings.url) as server:
        result = Result("depth", facts(server, settings))
        depths = depths_of(settings)
        rounds = compare_depths(server.url, set(depths.values()), settings)
        _report_depths(result, depths, rounds)
    # Prefer a new server: millions of deleted messages leave its memory fragmented.
    with target(settings.url) as server:
        _report_recovery(result, settings.expired, measure_recovery(server.url, settings))
    result.notes.append(
        "The longest script is by SLOWLOG, which reads the clock on the wall: the longest idle loop"
        " is that of as many scripts that only count, and shows what a busy machine adds."
    )
    return result


def _report_depths(result: Result, depths: dict[tuple[str, int], Depth], rounds: Rounds) -> None:
    for (grows, _), depth in sorted(depths.items(), key=lambda each: each[1]):
        found = rounds[str(depth)]
        for figure, of in (("server time", "server_us"), ("round trip", "client_us")):
            values = tuple(getattr(each, of) for each in found)
            result.measures.append(Measure(str(depth), grows, figure, "µs/message", values))
    (deep,) = (depth for (grows, _), depth in depths.items() if grows == DEEPEST)
    shallow = min(depth for (grows, _), depth in depths.items() if grows == GROWING[0])
    what, pair = f"{deep} / {shallow}", (rounds[str(deep)], rounds[str(shallow)])
    result.ratios += [
        ratio(f"{what}: server time", *pair, lambda each: each.server_us, 1.3, True),
        ratio(f"{what}: round trip", *pair, lambda each: each.client_us, None, True),
    ]


def _report_recovery(result: Result, held: int, found: dict[str, list[dict[str, float]]]) -> None:
    for size, runs in found.items():
        case, contestant = f"{held:,} expired", f"ackq, pop_many({size})"
        for figure, unit in FIGURES.items():
            values = tuple(run[figure] for run in runs)
            is_rate = figure == "recovered"
            result.measures.append(
                Measure(case, contestant, figure, unit, values, more_is_better=is_rate)
            )
        longest = tuple(run["longest script"] for run in runs)
        result.ratios.append(Ratio(f"{case}: {contestant}: longest script, ms", longest, 5, True))
    rates = tuple(run["recovered"] for run in found[f"{SIZES[0]}"])
    what = f"{held:,} expired: pop_many({SIZES[0]}): recovered, messages/s"
    result.ratios.append(Ratio(what, rates, 150_000))
