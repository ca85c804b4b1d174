"""A worker process: ackq's beside those that people use.

Each contestant is a process of its own, which fills its queue before its worker starts. Measured
is the time from the first call of the handler to the last. All take their turn in every round, on
one server, which is emptied in between.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

from benchmarks import report
from benchmarks.harness import Ratio, Spread, rotations
from benchmarks.servers import target
from benchmarks.workers.environments import HERE, PEERS, Absent, command_for, version_of

OWN = {"ackq, threads": "ackq_threads.py", "ackq, tasks": "ackq_tasks.py"}
#: Seconds that a contestant may take for one run.
PATIENCE = 300
#: Peers that handle one message at a time are not compared where handlers wait.
SINGLE = {peer.name for peer in PEERS if peer.single}


@dataclass(frozen=True, slots=True)
class Task:
    """What the handler does, how often, and how many at a time."""

    name: str
    messages: int
    sleep: float
    concurrency: int
    target: float  #: times the best peer


Rates = dict[str, list[float]]


def contestants(wanted: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the command of each contestant, and why others are absent."""
    commands = {name: [sys.executable, str(HERE / file)] for name, file in OWN.items()}
    absent = {}
    for peer in PEERS:
        if wanted and peer.name not in wanted:
            continue
        try:
            commands[peer.name] = command_for(peer)
        except Absent as reason:
            absent[peer.name] = str(reason)
    return commands, absent


def measure(command: Sequence[str], task: Task, url: str) -> float:
    """Run one contestant once and return its messages a second.

    Raises:
        RuntimeError: it did not handle every message; its last words are in the text.
    """
    with redis.Redis.from_url(url) as client:
        client.flushall()
    sizes = (str(task.messages), str(task.sleep), str(task.concurrency))
    try:
        done = subprocess.run(
            [*command, url, *sizes], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"not done within {PATIENCE} s") from error
    for line in done.stdout.splitlines():
        if line.startswith('{"seconds"'):
            seconds: float = json.loads(line)["seconds"]
            return (task.messages - 1) / seconds
    raise RuntimeError((done.stderr.strip().splitlines() or ["it said nothing"])[-1])


def run(commands: dict[str, list[str]], task: Task, rounds: int, url: str) -> Rates:
    """Measure every contestant in every round; who fails once is left out from then on."""
    rates: Rates = {name: [] for name in commands}
    failed: dict[str, str] = {}
    for order in rotations(list(commands), rounds):
        for name in order:
            if name in failed:
                continue
            try:
                rate = measure(commands[name], task, url)
                rates[name].append(rate)
                print(f"{task.name}: {name}: {rate:,.0f} messages a second", flush=True)
            except RuntimeError as error:
                failed[name] = str(error)
                print(f"{task.name}: {name} failed: {error}", flush=True)
    return {name: found for name, found in rates.items() if name not in failed}


def ratios_of(task: Task, rates: Rates) -> list[Ratio]:
    """Compare ackq's with the best peer of each round."""
    peers = [found for name, found in rates.items() if name not in OWN]
    if not peers:
        return []
    best = [max(each) for each in zip(*peers, strict=True)]
    own = {name: found for name, found in rates.items() if name in OWN}
    ratios = [
        Ratio(
            f"{task.name}: {name} / best peer",
            Spread.of([ours / theirs for ours, theirs in zip(found, best, strict=True)]),
        )
        for name, found in own.items()
    ]
    better = [max(each) for each in zip(*own.values(), strict=True)]
    spread = Spread.of([ours / theirs for ours, theirs in zip(better, best, strict=True)])
    return [*ratios, Ratio(f"{task.name}: better of the two / best peer", spread, task.target)]


def rows_of(tasks: dict[str, Rates]) -> list[list[str]]:
    """Return a row for each contestant and task, the quickest first."""
    rows = []
    for task, rates in tasks.items():
        spreads = {name: Spread.of(found) for name, found in rates.items()}
        for name, spread in sorted(spreads.items(), key=lambda each: -each[1].median):
            low_high = f"{spread.min:,.0f}-{spread.max:,.0f}"
            rows.append([f"{task}: {name}", f"{spread.median:,.0f}", low_high])
    return rows


def tasks_of(settings: argparse.Namespace) -> list[Task]:
    """Return what is measured."""
    asked = settings.concurrency
    return [
        Task("no-op", settings.messages, 0.0, asked, 5.0),
        Task("1 ms sleep", settings.sleeping, 0.001, asked, 1.0),
    ]


def main() -> None:
    """Install, measure, print, write."""
    options = report.parser("worker", "One worker process, beside the peers'.")
    options.add_argument("--messages", type=int, default=20_000, help="default: 20000")
    options.add_argument("--sleeping", type=int, default=5000, help="messages of the second task,"
                         " where the handler sleeps 1 ms; default: 5000")  # fmt: skip
    options.add_argument("--concurrency", type=int, default=16, help="default: 16")
    options.add_argument("--rounds", type=int, default=3, help="default: 3")
    options.add_argument("--peers", nargs="*", default=[], help="default: all")
    options.add_argument("--no-peers", action="store_true", help="ackq alone; installs nothing")
    settings = options.parse_args()
    if settings.url:
        options.error("the server is emptied between the runs: it must be one of this run's own")
    if settings.smoke:
        settings.messages, settings.sleeping, settings.rounds = 300, 100, 1
    wanted = ["none"] if settings.no_peers else settings.peers
    commands, absent = contestants(wanted)
    with target(None) as server:
        facts = report.circumstances(server, settings)
        present = [peer for peer in PEERS if peer.name in commands]
        facts["versions"] |= {peer.name: version_of(peer) for peer in present}
        print(report.describe(facts), flush=True)
        for name, reason in absent.items():
            print(f"absent: {name}: {reason}", flush=True)
        found: dict[str, Rates] = {}
        ratios: list[Ratio] = []
        for task in tasks_of(settings):
            able = commands
            if task.sleep:
                able = {name: each for name, each in commands.items() if name not in SINGLE}
            found[task.name] = run(able, task, settings.rounds, server.url)
            ratios += ratios_of(task, found[task.name])
    print(report.table(["messages a second", "median", "min-max"], rows_of(found)), end="\n\n")
    print(report.ratio_table("ratio within a round", ratios))
    report.write(settings.json, _result(facts, found, absent, ratios))


def _result(
    facts: dict[str, Any], found: dict[str, Rates], absent: dict[str, str], ratios: list[Ratio]
) -> dict[str, Any]:
    contestants: dict[str, dict[str, Any]] = {}
    for task, rates in found.items():
        for name, each in rates.items():
            contestants.setdefault(name, {})[task] = {**report.as_figure(each), "rounds": each}
    return {
        "benchmark": "worker", **facts, "contestants": contestants, "absent": absent,
        "ratios": [each.as_json() for each in ratios],
    }  # fmt: skip


if __name__ == "__main__":
    main()
