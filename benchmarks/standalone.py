"""A pipeline on a standalone cluster of Spark: one worker of one core, and two.

Each turn is `ackq pipeline submit --once` on a cluster of its own. The first batch, in which the
executors start, is not counted. Cluster, driver and Redis share this machine, so the processor
time of each tells what bounds the rate.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ackq import Queue
from ackq.bench.figures import Measure, Ratio, Result
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.picture import Picture
from benchmarks.servers import target
from benchmarks.spark_pipeline import CHECK, CHUNK, DDL, bodies
from benchmarks.spark_queries import absent

PURPOSE = "Run a pipeline on a Spark cluster of one worker, and of two."
QUEUE = "ackq-benchmark:standalone"
WORKERS = {"one worker": 1, "two workers": 2}
SIZE, BATCHES = 300, 5
PICTURES = (Picture("throughput", "A pipeline on workers of one core", "throughput"),)
#: Ticks of /proc per second.
_TICKS = os.sysconf("SC_CLK_TCK")
_ACKQ = "from ackq.cli import main; main()"


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
        rates: dict[str, list[float]] = {name: [] for name in WORKERS}
        shares: dict[str, list[float]] = {name: [] for name in WORKERS}
        for number in range(settings.rounds):
            for name in list(WORKERS)[:: -1 if number % 2 else 1]:
                progress(f"standalone: round {number + 1} of {settings.rounds}, {name}")
                rate, busy = _turn(server.url, settings, WORKERS[name])
                rates[name].append(rate)
                shares[name].append(busy)
    for name in WORKERS:
        result.measures += [
            Measure("pipeline", name, "throughput", "messages/s", tuple(rates[name]),
                    more_is_better=True),
            Measure("pipeline", name, "processors in use", "", tuple(shares[name]),
                    more_is_better=False),
        ]  # fmt: skip
    one, two = (tuple(rates[name]) for name in WORKERS)
    result.ratios.append(Ratio.of("two workers / one worker", two, one))
    return result


def _turn(url: str, settings: Settings, workers: int) -> tuple[float, float]:
    """Return messages per second after the first batch, and how many processors were in use."""
    supply = bodies(settings.seed, settings.messages, SIZE)
    with Queue.from_url(url, QUEUE) as queue:
        for at in range(0, len(supply), CHUNK):
            queue.push_many(supply[at : at + CHUNK])
    with tempfile.TemporaryDirectory(prefix="ackq-bench-") as name:
        folder = Path(name)
        config = folder / "pipeline.toml"
        config.write_text(
            f'name = "standalone"\ncheckpoint = "{folder}/checkpoint"\n'
            f'[source]\nqueue = "{QUEUE}"\n[source.options]\n'
            f"maxMessagesPerTrigger = {settings.messages // BATCHES}\n"
            f'[schema]\nddl = "{DDL}"\n[checks]\nvalid = "{CHECK}"\n'
            f'[sink]\nformat = "parquet"\npath = "{folder}/rows"\n'
        )
        with standalone(folder, workers) as master:
            return _timed(config, master, url)


def _timed(config: Path, master: str, url: str) -> tuple[float, float]:
    process = subprocess.Popen(
        [sys.executable, "-c", _ACKQ, "pipeline", "submit", config, "--master", master, "--once",
         "--json", "--python", sys.executable, "--url", url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    started: tuple[int, float, float] | None = None
    ended, batches = (0, 0.0, 0.0), 0
    with process:
        for line in process.stdout:
            done = json.loads(line)
            if done["batches"] > batches:
                batches = done["batches"]
                ended = done["rows"], time.monotonic(), _busy()
                started = started or ended
        errors = process.stderr.read() if process.stderr else ""
    if process.returncode or started is None:
        raise AssertionError(f"the pipeline failed: {errors[-2000:]}")
    rows, seconds, busy = (after - before for after, before in zip(ended, started, strict=True))
    return rows / seconds, busy / seconds


def _busy() -> float:
    """Return the seconds for which the machine's processors worked, whoever for."""
    first = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _wait, irq, soft, _steal = map(int, first)
    return (user + nice + system + irq + soft) / _TICKS


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """Run a cluster of workers with one core each; yield the URL of its master."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        log = _started(stack, folder / "master", "master.Master", "--port", str(port))
        _wait_for(log, "elected leader")
        logs = [
            _started(stack, folder / f"worker-{each}", "worker.Worker", "--cores", "1",
                     "--memory", "1g", "--work-dir", str(folder / f"worker-{each}"), url)
            for each in range(workers)
        ]  # fmt: skip
        for log in logs:
            _wait_for(log, "Successfully registered with master")
        yield url


def _started(stack: ExitStack, folder: Path, main: str, *arguments: str) -> Path:
    """Start a process of the cluster that ends with the stack; return its log."""
    import pyspark

    from ackq.spark.launch import find_java

    folder.mkdir()
    home = Path(pyspark.__file__).parent
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", f"org.apache.spark.deploy.{main}",
             "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            stdout=output, stderr=output, cwd=folder,
            env={**os.environ, "JAVA_HOME": str(find_java()), "SPARK_HOME": str(home)},
        )  # fmt: skip
    stack.callback(_end, process)
    return folder / "log"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + 120
    while re.search(text, log.read_text(errors="replace")) is None:
        if time.monotonic() > deadline:
            raise AssertionError(f"{log.parent.name} does not start: {log.read_text()[-2000:]}")
        time.sleep(0.2)
