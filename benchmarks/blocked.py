"""How long does a script block the server in the worst case?

Every script of ackq runs against the worst shapes that its inputs allow, each on a server of its
own. The cases stand in the facts of each script, `tests.facts`. SLOWLOG has the time of every call,
and Linux the CPU that the server's main thread used for it.
"""

import math
import re
import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import redis

from ackq import scripts
from ackq.bench.figures import Measure, Ratio, Result
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import target
from benchmarks.stalls import (
    IDLE_SHA,
    Pings,
    logging_slow_commands,
    milliseconds,
    pinging,
    run_idle_loops,
    script_times,
)
from benchmarks.thread_cpu import MainThread
from benchmarks.worst.scene import NAME, Scene
from tests import facts as script_facts
from tests.facts.facts import Case

PURPOSE = "How long each script blocks the server at worst."
OURS, IDLE = "ackq", "idle loop"
#: Milliseconds that the longest call may take beyond the longest idle loop: CPU time where Linux
#: counts it, so that a busy machine gives a verdict too.
LIMIT = 5.0
#: Shortest call to record, in microseconds. SLOWLOG also records the commands that a script calls:
#: with a lower limit, recording them would take longer than the scripts. A smoke run records all.
SLOW_US = {"full": 50, "quick": 50, "smoke": 0}
#: The figures reported for the calls of a script in one case, and their units.
FIGURES = {"median script": "ms", "longest script": "ms", "longest ping": "ms", "slow calls": ""}
CPU, MEMORY = "longest script, CPU", "memory, peak over the start"
#: Those that only Linux has, for a server on this machine.
OPTIONAL = {CPU: "ms", MEMORY: "MiB"}
OVER = "over the idle loop"


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 3, quick=1, smoke=1, help="of each case")
    options.size("share", 1.0, quick=0.1, smoke=0.0001, help="of the messages of deep queues")
    options.size("bodies", 1.0, smoke=0.0001, help="of the bytes of long bodies")
    options.add_argument(
        "--scripts",
        nargs="+",
        metavar="NAME",
        choices=scripts.names(),
        help="only these, such as pop or topic/consume",
    )


def run(settings: Settings) -> Result:
    """Measure every case in turn, and all cases again in the next round."""
    cases = [
        each
        for each in script_facts.cases()
        if not settings.scripts or each.script in settings.scripts
    ]
    with target(settings.url) as server:
        result = Result("blocked", facts(server, settings))
    found: dict[Case, list[dict[str, float]]] = {case: [] for case in cases}
    with pinging() as pings:
        for number in range(settings.rounds):
            for case in cases:
                progress(f"round {number + 1} of {settings.rounds}: {case}")
                figures = measure(case, settings, pings)
                found[case].append(figures)
                progress(
                    f"  {figures['longest script']:.1f} ms, {figures.get(CPU, math.nan):.1f} of CPU"
                )
    for case, rounds in found.items():
        _report(result, str(case), rounds)
    if over := [ratio.what for ratio in result.ratios if not ratio.reached]:
        result.notes.append(f"Over the limit: {'; '.join(over)}.")
    result.notes.append(
        "The longest idle loop is that of as many scripts that only count, each as long as the"
        f" median, or {LIMIT:g} ms where that is longer: what the machine adds by itself."
    )
    return result


def measure(case: Case, settings: Settings, pings: Pings) -> dict[str, float]:
    """Bring a server into the state of the case, run the slow operation, and read SLOWLOG."""
    sha = scripts.load(case.script).sha
    with (
        target(settings.url) as server,
        Scene(server.url, settings.share, settings.bodies) as scene,
        logging_slow_commands(scene.client, SLOW_US[settings.pace]),
    ):
        try:
            act = case.prepare(scene)
            scene.client.slowlog_reset()
            thread = None if settings.url else MainThread.of(scene.client)
            memory = None if settings.url else Memory(scene.client)
            with pings.longest(server.url) as ping, scene.cpu.calls(thread, sha) as cpu:
                act()
            times = script_times(scene.client, sha)
            if not times and settings.pace == "smoke":
                raise AssertionError(f"{case}: the script was not called")
            times = times or [SLOW_US[settings.pace] / 1000]
            grown = memory.grown() if memory else None
            typical = statistics.median(times)
            with scene.cpu.calls(thread, IDLE_SHA) as idle_cpu:
                typical_idle = min(statistics.median(cpu) if cpu else typical, LIMIT)
                clock = thread.cpu_ms if thread else milliseconds
                run_idle_loops(scene.client, typical_idle, len(times), clock)
            idle = script_times(scene.client)
        finally:
            if settings.url:
                clear(scene.client)
    values = (typical, max(times), ping[0] * 1000, len(times))
    figures = dict(zip(FIGURES, values, strict=True)) | {IDLE: max(idle)}
    figures[OVER] = max(times) - max(idle)
    if cpu:
        figures |= {CPU: max(cpu), OVER: max(cpu) - max(idle_cpu[1:])}
    return figures if grown is None else figures | {MEMORY: grown}


def clear(client: redis.Redis) -> None:
    """Delete the data of a case on a server that is not ours."""
    for key in client.scan_iter(f"{NAME}*", count=1000):
        client.unlink(key)


class Memory:
    """The peak growth of a server's memory, as the kernel sees it.

    The server's own figures omit memory that a script uses. This works only on Linux, for a server
    that we own.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._process = Path("/proc") / str(client.info("server")["process_id"])
        client.memory_purge()
        self._before: int | None = None
        with suppress(OSError):
            (self._process / "clear_refs").write_text("5")
            self._before = self._highest()

    def grown(self) -> float | None:
        """Return the growth so far in MiB; None if unknown."""
        if self._before is None:
            return None
        return (self._highest() - self._before) / 1024

    def _highest(self) -> int:
        (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", (self._process / "status").read_text())
        return int(kib)


def _report(result: Result, case: str, rounds: Sequence[dict[str, float]]) -> None:
    figures = FIGURES | {name: unit for name, unit in OPTIONAL.items() if name in rounds[0]}
    for figure, unit in figures.items():
        values = tuple(each[figure] for each in rounds)
        result.measures.append(Measure(case, OURS, figure, unit, values))
    idle = tuple(each[IDLE] for each in rounds)
    result.measures.append(Measure(case, IDLE, "longest script", "ms", idle))
    over = tuple(each[OVER] for each in rounds)
    result.ratios.append(Ratio(f"{case}: {OVER}, ms", over, LIMIT, True))
