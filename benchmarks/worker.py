"""A worker process: ackq's beside other popular ones.

Each contestant is a process that fills its queue before its worker starts. The time from the first
call of the handler to the last is measured. All contestants take turns in every round, on one
server, which is emptied in between.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import redis

from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.rounds import rotations
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import target
from benchmarks.workers.environments import HERE, PEERS, Absent, command_for, version_of

PURPOSE = "Messages a second of one worker process, beside nine peers from PyPI and npm."
OWN = {
    "ackq, threads": "ackq_threads.py",
    "ackq, tasks": "ackq_tasks.py",
    "ackq.tasks, threads": "ackq_typed.py",
    "ackq.tasks, asyncio": "ackq_typed_async.py",
}
#: Seconds that a contestant may take for one run.
TIMEOUT = 300


@dataclass(frozen=True, slots=True)
class Task:
    """The handler's work, the number of messages, and the concurrency."""

    name: str
    messages: int
    sleep: float
    concurrency: int
    target: float | None  #: times the best peer


Commands = dict[str, list[str]]
Rates = dict[str, list[float]]


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 3, quick=1, smoke=1, help="with one turn for each contestant")
    options.size(
        "messages", 20_000, quick=5000, smoke=300, help="for the handler that does nothing"
    )
    options.size(
        "sleeping", 5000, quick=1500, smoke=100, help="messages for the handler that sleeps 1 ms"
    )
    options.add_argument(
        "--concurrency", type=int, default=16, metavar="N", help="handlers at a time; default: 16"
    )
    options.add_argument(
        "--peers",
        nargs="*",
        choices=[peer.name for peer in PEERS],
        help="peers to compare with; no name: none; default: all, and none"
        " with --smoke, since they are installed at their first run",
    )


def run(settings: Settings) -> Result:
    """Measure all contestants in both tasks, and compare ackq with the best peer of each round."""
    if settings.url:
        sys.exit("the server is emptied between the runs: it must be one of this run's own")
    if settings.peers is None:
        settings.peers = [] if settings.pace == "smoke" else [peer.name for peer in PEERS]
    commands, notes = contestants(settings.peers)
    with target(None) as server:
        result = Result("worker", facts(server, settings), notes=notes)
        for peer in PEERS:
            if peer.name in commands:
                result.facts["versions"][peer.name] = version_of(peer)
        for task in tasks_of(settings):
            rates = rates_of(able(commands, task), task, settings.rounds, server.url, notes)
            # The same turns, once more by the processor time of the worker.
            named = {"": task.target, " by processor time": None}
            for number, (how, goal) in enumerate(named.items()):
                some = {name: [pair[number] for pair in found] for name, found in rates.items()}
                case = replace(task, name=task.name + how, target=goal)
                result.measures += measures_of(case, some)
                result.ratios += ratios_of(case, some)
    return result


def contestants(wanted: Sequence[str]) -> tuple[Commands, list[str]]:
    """Return the command of each contestant, and a note for each missing one."""
    commands = {name: [sys.executable, str(HERE / file)] for name, file in OWN.items()}
    notes = []
    for peer in PEERS:
        if peer.name in wanted:
            try:
                commands[peer.name] = command_for(peer)
            except Absent as reason:
                notes.append(f"{peer.name} is absent: {reason}")
    return commands, notes


def tasks_of(settings: Settings) -> list[Task]:
    """Return the tasks to measure."""
    return [
        Task("no-op", settings.messages, 0.0, settings.concurrency, 5.0),
        Task("1 ms sleep", settings.sleeping, 0.001, settings.concurrency, 1.0),
    ]


def able(commands: Commands, task: Task) -> Commands:
    """Leave out contestants that handle one message at a time, for tasks whose handlers wait."""
    single = {peer.name for peer in PEERS if peer.single} if task.sleep else set()
    return {name: command for name, command in commands.items() if name not in single}


def rates_of(
    commands: Commands, task: Task, rounds: int, url: str, notes: list[str]
) -> dict[str, list[tuple[float, float]]]:
    """Measure all contestants in every round; leave out any that fails, with a note."""
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for order in rotations(list(commands), rounds):
        for name in order:
            if name not in rates:
                continue
            try:
                rates[name].append(measure(commands[name], task, url))
                progress(f"{task.name}: {name}: {rates[name][-1][0]:,.0f} messages a second")
            except RuntimeError as error:
                del rates[name]
                notes.append(f"{task.name}: {name} failed: {error}")
                progress(notes[-1])
    return rates


def measure(command: Sequence[str], task: Task, url: str) -> tuple[float, float]:
    """Run one contestant once; return its messages a second, and a second of its processor time.

    Raises:
        RuntimeError: it did not handle every message. The text has the end of its output.
    """
    with redis.Redis.from_url(url) as client:
        client.flushall()
    sizes = (str(task.messages), str(task.sleep), str(task.concurrency))
    try:
        done = subprocess.run(
            [*command, url, *sizes], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"not done within {TIMEOUT} s") from error
    for line in done.stdout.splitlines():
        if line.startswith('{"seconds"'):
            found = json.loads(line)
            return (task.messages - 1) / found["seconds"], (task.messages - 1) / found["cpu"]
    raise RuntimeError((done.stderr.strip().splitlines() or ["it said nothing"])[-1])


def measures_of(task: Task, rates: Rates) -> list[Measure]:
    """Return what was measured, ackq's first, then the peers, the quickest first."""
    measures = [
        Measure(task.name, name, "throughput", "messages/s", tuple(found), more_is_better=True)
        for name, found in rates.items()
    ]
    return sorted(measures, key=lambda each: (each.contestant not in OWN, -each.spread.median))


def ratios_of(task: Task, rates: Mapping[str, Sequence[float]]) -> list[Ratio]:
    """Compare ackq's with the best peer of each round; the better of the two has the target."""
    peers = [found for name, found in rates.items() if name not in OWN]
    own = {name: found for name, found in rates.items() if name in OWN}
    if not peers or not own:
        return []
    best = [max(each) for each in zip(*peers, strict=True)]
    better = [max(each) for each in zip(*own.values(), strict=True)]
    what = f"{task.name}: {{}} / best peer"
    return [
        Ratio.of(what.format("better of the two"), better, best, task.target),
        *(Ratio.of(what.format(name), found, best) for name, found in own.items()),
    ]


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["worker", *sys.argv[1:]])
