"""A pipeline on a standalone cluster of Spark: one worker of one core, and two.

Each turn is `ackq pipeline run --once` on a cluster of its own. The first batch, in which the
executors start, is not counted. Cluster, driver and Redis share this machine, so the processor
time of each tells what bounds the rate.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ackq import Queue
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.rounds import ServerCpu, in_turns
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import target
from benchmarks.spark_pipeline import CHECK, DDL, bodies
from benchmarks.spark_queries import absent

PURPOSE = "Run a pipeline on a Spark cluster of one worker, and of two."
QUEUE = "ackq-benchmark:standalone"
WORKERS = {"one worker": 1, "two workers": 2}
SIZE, BATCHES = 300, 5
#: Ticks of /proc per second.
_TICKS = os.sysconf("SC_CLK_TCK")
#: Whose processor time is measured.
PARTS = ("executors", "driver", "Redis")
_ACKQ = "from ackq.cli import main; main()"


class Turn(NamedTuple):
    """One run of the pipeline, without its first batch."""

    rate: float  #: messages per second
    processor: dict[str, float]  #: microseconds per message, by part


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 3, quick=2, smoke=1, help="of each cluster")
    options.size("messages", 1_000_000, quick=200_000, smoke=2000, help="carried in each round")


def run(settings: Settings) -> Result:
    """Run the pipeline on both clusters, in turns."""
    with target(settings.url) as server:
        result = Result("standalone", facts(server, settings))
        if why := absent():
            result.notes.append(f"Everything is left out: {why}.")
            return result
        turns = {
            name: partial(_turn, server.url, settings, count) for name, count in WORKERS.items()
        }
        found = in_turns(turns, settings.rounds)
    for name, made in found.items():
        rates = tuple(each.rate for each in made)
        result.measures.append(
            Measure("pipeline", name, "throughput", "messages/s", rates, more_is_better=True)
        )
        for part in PARTS:
            spent = tuple(each.processor[part] for each in made)
            figure = f"processor time, {part}"
            result.measures.append(Measure("pipeline", name, figure, "µs/message", spent))
    one, two = ([each.rate for each in made] for made in found.values())
    result.ratios.append(Ratio.of("two workers / one worker", two, one))
    return result


def _turn(url: str, settings: Settings, workers: int) -> Turn:
    progress(f"standalone: {workers} workers")
    with Queue.from_url(url, QUEUE) as queue:
        queue.push_many(bodies(settings.seed, settings.messages, SIZE))
    with tempfile.TemporaryDirectory(prefix="ackq-bench-") as name:
        folder = Path(name)
        config = folder / "pipeline.toml"
        config.write_text(
            f'name = "standalone"\ncheckpoint = "{folder}/checkpoint"\n'
            f'[source]\nqueue = "{QUEUE}"\n[source.options]\n'
            f"maxMessagesPerTrigger = {settings.messages // BATCHES}\n"
            f'[schema]\nddl = "{DDL}"\n[checks]\nvalid = "{CHECK}"\n'
            f'[sink]\nformat = "parquet"\npath = "{folder}/rows"\n'
            f'[spark]\n"spark.pyspark.python" = "{sys.executable}"\n'
        )
        with standalone(folder, workers) as (master, processes), closing(ServerCpu(url)) as cpu:
            with config.open("a") as file:
                file.write(f'"spark.master" = "{master}"\n')
            return _timed(config, url, processes, cpu)


def _timed(config: Path, url: str, workers: list[int], server: ServerCpu) -> Turn:
    command = [sys.executable, "-c", _ACKQ, "pipeline", "run", f"{config}", "--once"]
    process = subprocess.Popen(
        [*command, "--json", "--url", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    reached: list[tuple[float, ...]] = []
    with process:
        for line in process.stdout:
            done = json.loads(line)
            if done["batches"] > len(reached):
                spent = _seconds(workers), _seconds([process.pid]), server.seconds()
                reached.append((done["rows"], time.monotonic(), *spent))
        errors = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise AssertionError(f"the pipeline failed: {errors[-2000:]}")
    rows, seconds, *parts = (b - a for a, b in zip(reached[0], reached[-1], strict=True))
    return Turn(
        rows / seconds, dict(zip(PARTS, (1e6 * part / rows for part in parts), strict=True))
    )


def _seconds(roots: list[int]) -> float:
    """Return the processor time of processes and all their descendants, also of ended ones."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    wanted = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in wanted} - wanted:
        wanted |= more
    return sum(ticks.get(pid, 0) for pid in wanted) / _TICKS


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[tuple[str, list[int]]]:
    """Run a cluster of workers with one core each; yield its URL and the workers' processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        log, _ = _started(stack, folder / "master", "master.Master", "--port", str(port))
        _wait_for(log, "elected leader")
        one_core = ("--cores", "1", "--memory", "1g")
        made = [
            _started(stack, own, "worker.Worker", *one_core, "--work-dir", str(own), url)
            for own in (folder / f"worker-{number}" for number in range(workers))
        ]
        for log, _ in made:
            _wait_for(log, "Successfully registered with master")
        yield url, [pid for _, pid in made]


def _started(stack: ExitStack, folder: Path, main: str, *arguments: str) -> tuple[Path, int]:
    """Start a process of the cluster that ends with the stack; return its log and its id."""
    import pyspark

    from ackq.spark.launch import find_java

    folder.mkdir()
    home = Path(pyspark.__file__).parent
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(
            [
                home / "bin" / "spark-class",
                f"org.apache.spark.deploy.{main}",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                *arguments,
            ],
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**os.environ, "JAVA_HOME": str(find_java()), "SPARK_HOME": str(home)},
        )
    stack.callback(_end, process)
    return folder / "log", process.pid


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + 120
    while re.search(text, log.read_text(errors="replace")) is None:
        if time.monotonic() > deadline:
            raise AssertionError(f"{log.parent.name} does not start: {log.read_text()[-2000:]}")
        time.sleep(0.2)
