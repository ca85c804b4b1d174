"""Push, pop and ack: ackq beside a bare list, the article's scripts and Streams.

All contestants run in one process, in turns, on one server; ratios are taken within a round.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks import report
from benchmarks.contestants.article import Article
from benchmarks.contestants.bare import BareList, BareListBatch
from benchmarks.contestants.base import Contestant, Messages
from benchmarks.contestants.leased import Ackq, AckqBatch
from benchmarks.contestants.streams import Stream
from benchmarks.harness import (
    Ratio,
    Round,
    ServerCpu,
    cycles_for,
    measure,
    paired,
    rotations,
)
from benchmarks.servers import target

#: Messages of one batch.
BATCH = 100

Make = Callable[[str, str, Messages, int], Contestant]
Rounds = dict[str, list[Round]]


def entries(in_flight: int) -> dict[str, tuple[Make, int, int]]:
    """Return the contestants: class, batch, messages in flight. Rivals stand side by side."""
    found: dict[str, tuple[Make, int, int]] = {
        "bare list": (BareList, 1, 0),
        "ackq": (Ackq, 1, 0),
        "article": (Article, 1, 0),
        "streams": (Stream, 1, 0),
        "bare list, batch": (BareListBatch, BATCH, 0),
        "ackq, batch": (AckqBatch, BATCH, 0),
        "streams, batch": (Stream, BATCH, 0),
    }
    if in_flight:
        found[f"ackq, batch, {in_flight} in flight"] = (AckqBatch, BATCH, in_flight)
        found[f"streams, batch, {in_flight} in flight"] = (Stream, BATCH, in_flight)
    return found


def run(url: str, settings: argparse.Namespace) -> Rounds:
    """Measure every contestant in every round."""
    with ExitStack() as stack:
        cpu = ServerCpu(url)
        stack.callback(cpu.close)
        players: dict[str, tuple[Contestant, int]] = {}
        for number, (name, (make, batch, held)) in enumerate(entries(settings.in_flight).items()):
            messages = Messages(settings.seed)
            player = make(url, f"ackq-benchmark:{number}", messages, batch)
            stack.callback(player.close)
            if held:
                player.hold(held)
            players[name] = player, cycles_for(player.cycle, settings.seconds)
        rounds: Rounds = {name: [] for name in players}
        for order in rotations(list(players), settings.rounds):
            for name in order:
                player, cycles = players[name]
                rounds[name].append(measure(player.cycle, player.batch, cycles, cpu))
        return rounds


def ratios_of(rounds: Rounds, in_flight: int) -> list[Ratio]:
    """Compare who is to be compared."""
    found = [
        *_compare(rounds, "ackq", "bare list", 0.85),
        *_compare(rounds, "ackq", "article"),
        *_compare(rounds, "ackq", "streams"),
        *_compare(rounds, "ackq, batch", "bare list, batch"),
        *_compare(rounds, "ackq, batch", "streams, batch", 1.4),
    ]
    if in_flight:
        tail = f", batch, {in_flight} in flight"
        found += _compare(rounds, f"ackq{tail}", f"streams{tail}", 1.4)
    return found


def _compare(
    rounds: Rounds, above: str, below: str, target: float | None = None
) -> Sequence[Ratio]:
    pair = partial(paired, rounds[above], rounds[below])
    return (
        Ratio(f"{above} / {below}: throughput", pair(lambda each: each.rate), target),
        Ratio(f"{above} / {below}: server time", pair(lambda each: each.server_us)),
    )


def summary_of(rounds: Rounds) -> dict[str, dict[str, Any]]:
    """Return the figures of each contestant, for JSON."""
    return {
        name: {
            "messages_per_second": report.as_figure([each.rate for each in found]),
            "server_us_per_message": report.as_figure([each.server_us for each in found]),
            "rounds": [asdict(each) for each in found],
        }
        for name, found in rounds.items()
    }


def rows_of(summary: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Return the figures of each contestant, for the table."""
    rows = []
    for name, figures in summary.items():
        rate, server = figures["messages_per_second"], figures["server_us_per_message"]
        rows.append([
            name,
            f"{rate['median']:,.0f}",
            f"{rate['min']:,.0f}-{rate['max']:,.0f}",
            f"{server['median']:.2f}",
            f"{server['min']:.2f}-{server['max']:.2f}",
        ])  # fmt: skip
    return rows


def main() -> None:
    """Measure, print, write."""
    options = report.parser("cycle", "Push, pop and ack messages of 100 bytes.")
    options.add_argument("--rounds", type=int, default=12, help="default: 12")
    options.add_argument(
        "--seconds", type=float, default=0.6, help="of each contestant in each round; default: 0.6"
    )
    options.add_argument(
        "--in-flight",
        type=int,
        default=1000,
        help="messages held meanwhile, in a second pair of batch contestants (a sorted set of"
        " under 128 members is stored otherwise); 0: leave them out; default: 1000",
    )
    settings = options.parse_args()
    if settings.smoke:
        settings.rounds, settings.seconds, settings.in_flight = 2, 0.02, 200
    with target(settings.url) as server:
        facts = report.circumstances(server, settings)
        print(report.describe(facts), flush=True)
        rounds = run(server.url, settings)
    summary, ratios = summary_of(rounds), ratios_of(rounds, settings.in_flight)
    head = ["median of the rounds", "messages/s", "min-max", "server µs/message", "min-max"]
    print(report.table(head, rows_of(summary)))
    print()
    print(report.ratio_table("ratio within a round", ratios))
    report.write(
        settings.json,
        {
            "benchmark": "cycle",
            **facts,
            "contestants": summary,
            "ratios": [each.as_json() for each in ratios],
        },
    )


if __name__ == "__main__":
    main()
