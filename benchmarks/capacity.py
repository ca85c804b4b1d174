"""What does a message cost a node, and how many nodes does a load need?

A message is pushed, taken and acked in batches of several sizes, with bodies of several sizes.
Three numbers are fitted to each figure: a part for each message, each request, and each byte. Cases
that had no part in the fit show how well it predicts. The plan then follows by multiplication.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import redis

from ackq import Queue
from ackq.bench.contestants import LONG, Ackq
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.messages import Messages
from ackq.bench.rounds import cycles_for, in_turns
from ackq.queue.keys import QueueKeys
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.memory import used_memory
from benchmarks.servers import target

PURPOSE = "What a message costs by batch and size; the nodes that a load needs."
KEY = "ackq-benchmark:capacity"
#: The figures of a message, and their units.
FIGURES = {"server time": "µs/message", "received": "B/message", "sent": "B/message"}
#: Cases that have no part in the fit: batch and bytes.
HELD_OUT = ((30, 3000), (300, 300))
#: The share of a node's processor that a plan uses: beyond it, messages wait for each other.
BUSY = 0.5
#: Messages in flight whose memory is measured.
STORED = 20_000


class Case(NamedTuple):
    """Messages of a call, and bytes of a body."""

    batch: int
    size: int

    def __str__(self) -> str:
        return f"by {self.batch}, {self.size} B"


class Fit(NamedTuple):
    """A figure of a message: a constant, a part of each request, and a part for each byte."""

    message: float
    request: float
    byte: float

    def of(self, case: Case) -> float:
        return self.message + self.request / case.batch + self.byte * case.size

    @classmethod
    def to(cls, found: Mapping[Case, float]) -> Fit:
        """Return the fit with the least squares of the relative errors."""
        rows = [(1.0, 1 / case.batch, float(case.size)) for case in found]
        weights = [1 / value**2 for value in found.values()]
        sums = [
            [
                sum(weight * row[i] * row[j] for row, weight in zip(rows, weights, strict=True))
                for j in range(3)
            ]
            for i in range(3)
        ]
        right = [
            sum(row[i] / value for row, value in zip(rows, found.values(), strict=True))
            for i in range(3)
        ]
        whole = _determinant(sums)
        return cls(*(_determinant(_replaced(sums, place, right)) / whole for place in range(3)))


def options(options: Options) -> None:
    """Add the options."""
    options.size("batches", (1, 10, 100, 1000), smoke=(1, 10), help="messages of a call")
    options.size("sizes", (100, 1000, 10_000), smoke=(100, 1000), help="bytes of a body")
    options.size("rounds", 7, quick=3, smoke=1, help="of each case")
    options.size("seconds", 0.5, quick=0.3, smoke=0.02, help="of each round", metavar="S")
    options.size(
        "rates",
        (100_000, 1_000_000, 10_000_000),
        smoke=(100_000,),
        help="messages per second to plan for",
    )
    options.size("planned-batch", 100, smoke=10, help="messages of a call in the plan")
    options.size("planned-size", 1000, smoke=1000, help="bytes of a body in the plan")


def run(settings: Settings) -> Result:
    """Measure, fit, compare, plan."""
    with target(settings.url) as server:
        result = Result("capacity", facts(server, settings))
        cases = [Case(batch, size) for batch in settings.batches for size in settings.sizes]
        held_out = [Case(*each) for each in HELD_OUT]
        memory = {size: _memory(server.url, size, settings.seed) for size in settings.sizes}
        found = _measure(server.url, [*cases, *held_out], settings)
    for case, rounds in found.items():
        for place, (figure, unit) in enumerate(FIGURES.items()):
            values = tuple(each[place] for each in rounds)
            result.measures.append(Measure(str(case), "ackq", figure, unit, values))
    for size, (ready, in_flight) in memory.items():
        for figure, value in (("memory, ready", ready), ("memory, in flight", in_flight)):
            result.measures.append(Measure(f"{size} B", "ackq", figure, "B/message", (value,)))
    fits = {
        figure: Fit.to({case: median(each[place] for each in found[case]) for case in cases})
        for place, figure in enumerate(FIGURES)
    }
    for place, (figure, fit) in enumerate(fits.items()):
        for case in held_out:
            measured = [each[place] for each in found[case]]
            predicted = [fit.of(case)] * len(measured)
            what = f"{case}: predicted / measured: {figure}"
            result.ratios.append(Ratio.of(what, predicted, measured))
    planned = Case(settings.planned_batch, settings.planned_size)
    for rate in settings.rates:
        _plan(result, rate, planned, fits)
    result.notes += [
        f"{figure} of a message: {fit.message:.3g} + {fit.request:.3g} / batch +"
        f" {fit.byte:.3g} x bytes"
        for figure, fit in fits.items()
    ]
    return result


def _measure(
    url: str, cases: Sequence[Case], settings: Settings
) -> dict[Case, list[tuple[float, ...]]]:
    with ExitStack() as stack:
        info: redis.Redis = stack.enter_context(redis.Redis.from_url(url))
        players, cycles = {}, {}
        for case in cases:
            progress(str(case))
            messages = Messages(settings.seed, case.size)
            player = Ackq(url, f"{KEY}:{case.batch}-{case.size}", messages, case.batch)
            stack.callback(player.close)
            players[str(case)], cycles[str(case)] = player, cycles_for(player, settings.seconds)

        def turn(name: str) -> tuple[float, ...]:
            before = _read(info)
            came, _ = players[name].burst(cycles[name])
            return tuple((b - a) / came for a, b in zip(before, _read(info), strict=True))

        rounds = in_turns({name: partial(turn, name) for name in players}, settings.rounds)
        return {case: rounds[str(case)] for case in cases}


def _read(client: redis.Redis) -> tuple[float, ...]:
    """Return the server's CPU in µs, and the bytes that it received and sent."""
    info: Any = client.info("all")
    cpu = (info["used_cpu_user"] + info["used_cpu_sys"]) * 1e6
    return cpu, info["total_net_input_bytes"], info["total_net_output_bytes"]


def _memory(url: str, size: int, seed: int) -> tuple[float, float]:
    """Return the bytes of a ready message and of one in flight."""
    with redis.Redis.from_url(url) as client:
        with Queue(client, KEY, visibility_timeout=LONG) as queue:
            queue.pop()  # loads the script
            empty = used_memory(client)
            messages = Messages(seed, size)
            for _ in range(STORED // 1000):
                queue.push_many(messages.many(1000))
            ready = used_memory(client)
            while queue.pop_many(1000):
                pass
            in_flight = used_memory(client)
        client.unlink(*QueueKeys.of(KEY).all())
    return (ready - empty) / STORED, (in_flight - empty) / STORED


def _plan(result: Result, rate: float, case: Case, fits: Mapping[str, Fit]) -> None:
    cores = rate * fits["server time"].of(case) / 1e6
    nodes = max(1.0, cores / BUSY)
    bits = rate * max(fits["received"].of(case), fits["sent"].of(case)) * 8 / 1e9
    figures = {
        "nodes": (nodes, ""),
        "network in the busier direction": (bits, "Gbit/s"),
        "the same of a node": (bits / nodes, "Gbit/s"),
    }
    for figure, (value, unit) in figures.items():
        name = f"{rate:,.0f} messages/s, {case}"
        result.measures.append(Measure(name, "planned", figure, unit, (value,)))


def _replaced(
    matrix: Sequence[Sequence[float]], place: int, column: Sequence[float]
) -> list[list[float]]:
    return [
        [value if at == place else each for at, each in enumerate(row)]
        for row, value in zip(matrix, column, strict=True)
    ]


def _determinant(m: Sequence[Sequence[float]]) -> float:
    (a, b, c), (d, e, f), (g, h, i) = m
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
