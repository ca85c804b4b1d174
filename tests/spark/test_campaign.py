"""A million messages through a queue and a pipeline into Parquet, while processes are killed.

The pipeline is the command that users run. Its driver, JVM and workers get SIGKILL at random
moments of a batch, and Redis once, with its log of writes fsynced always. Then the rows of the
files are counted by id. On a standalone cluster of two workers, executors are killed instead.
``ACKQ_SOAK=0.02`` makes it a small one, ``ACKQ_SEED`` repeats one.
"""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import redis

import ackq.embedded.server
from ackq import Queue
from ackq.embedded import Server
from tests.servers.private import private_server
from tests.spark.cluster import Cluster, kill, standalone
from tests.spark.crash_matrix import TOO_BUSY
from tests.spark.home import JAVA
from tests.spark.killed import ROOT, running_pipeline
from tests.waiting import wait_until

MESSAGES = int(1_000_000 * float(os.environ.get("ACKQ_SOAK", "1")))
BATCHES = 40
KILLS, EXECUTORS_KILLED = 8, 24
#: The number of kills after which Redis is killed too, under the next run.
OUTAGE = KILLS // 2
#: Steps of batches, three each, after which a run is killed at the latest, and seconds more.
STEPS, LATER = 5, 1.5
#: The session on this machine alone, and on a cluster.
LOCAL = '"spark.master" = "local[2]"'
CLUSTERED = """
            "spark.master" = "MASTER"
            "spark.pyspark.python" = "PYTHON"
            "spark.executor.memory" = "512m"
            "spark.executor.extraJavaOptions" = "JAVA"
"""
#: Runs that may end since the machine was too busy.
MOST_BUSY = 20
#: Repetitions of a message's number that make it about 300 bytes long.
REPEATED = 36


@dataclass
class Pipeline:
    """The command, its files and its faults."""

    folder: Path
    url: str
    spark: str = LOCAL
    #: Number of killed runs, by the stage that the current batch had reached.
    killed: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    outages: int = 0
    busy: int = 0

    def __post_init__(self) -> None:
        self.config = self.folder / "campaign.toml"
        self.config.write_text(f"""
            checkpoint = "state"
            every = 0
            [source]
            queue = "jobs"
            [source.options]
            maxMessagesPerTrigger = {max(1, MESSAGES // BATCHES)}
            [schema]
            ddl = "id STRING, n INT, payload STRING"
            not_null = ["id", "n"]
            [sink]
            path = "rows"
            [spark]
            "spark.driver.memory" = "1g"
            {self.spark}
            """)

    @contextmanager
    def running(self) -> Iterator[psutil.Popen]:
        """Run the command; at the end of the block kill it, its JVM and its workers."""
        self.runs += 1
        with running_pipeline(self.config, self.url, self.output()) as process:
            yield process

    def output(self) -> Path:
        """The file with the output of the latest run."""
        return self.folder / f"output-{self.runs:02d}"

    def ended(self, process: psutil.Popen) -> bool:
        """Return whether the run came to its end; False: it goes on, or has to run again."""
        if not process.poll():
            return bool(process.returncode == 0)
        output = self.output().read_text(errors="replace")
        assert TOO_BUSY in output, output[-3000:]
        self.busy += 1
        assert self.busy < MOST_BUSY
        return False

    def steps(self) -> dict[str, int]:
        """Count the batches that are planned, written and done."""
        return {
            "planned": len(list(self.folder.glob("state/offsets/[0-9]*"))),
            "written": len(list(self.folder.glob("rows/ackq_batch=*/_SUCCESS"))),
            "done": len(list(self.folder.glob("state/commits/[0-9]*"))),
        }

    def note(self) -> None:
        """Record the stage that the current batch had reached."""
        steps = self.steps()
        written = steps["written"] > steps["done"]
        planned = steps["planned"] > steps["done"]
        self.killed["written" if written else "planned" if planned else "between"] += 1


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_million_messages_reach_the_files_once_whoever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ackq.embedded.server, "START_TIMEOUT", 120.0)  # its log of writes is long
    seed = int(os.environ.get("ACKQ_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"seed {seed}")
    began = time.monotonic()
    with private_server(tmp_path / "redis") as server, Queue.from_url(server.url, "jobs") as queue:
        queue.push_many({"id": f"m{n}", "n": n, "payload": payload(n)} for n in range(MESSAGES))
        pipeline = Pipeline(tmp_path, server.url)
        while sum(pipeline.killed.values()) < KILLS:
            run_until_killed(pipeline, server, random.Random(seed + pipeline.runs))
        run_to_the_end(pipeline)
        stats = queue.stats()
        assert (stats.ready, stats.in_flight, stats.dead) == (0, 0, 0)
    check(tmp_path / "rows")
    print(
        f"{MESSAGES} messages, {KILLS} drivers killed ({dict(pipeline.killed)}), Redis"
        f" {pipeline.outages} times, {pipeline.busy} runs that could not start a process, in"
        f" {time.monotonic() - began:.0f} s: none lost, none twice"
    )


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_cluster_whose_executors_are_killed_writes_each_message_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("ACKQ_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"seed {seed}")
    began, draw = time.monotonic(), random.Random(seed)
    with private_server(tmp_path / "redis") as server, Queue.from_url(server.url, "jobs") as queue:
        environment = {"ACKQ_REDIS_URL": server.url, "PYTHONPATH": str(ROOT)}
        python = Path(sys.executable).parent
        queue.push_many({"id": f"m{n}", "n": n, "payload": payload(n)} for n in range(MESSAGES))
        with standalone(tmp_path / "cluster", 2, environment, python) as cluster:
            spark = CLUSTERED.replace("MASTER", cluster.master).replace("JAVA", JAVA)
            pipeline = Pipeline(tmp_path, server.url, spark.replace("PYTHON", sys.executable))
            killed, done = 0, False
            while not done:
                with pipeline.running() as process:
                    while process.poll() is None and killed < EXECUTORS_KILLED:
                        killed += _kill_an_executor(pipeline, cluster, process, draw)
                    process.wait(2400)
                    done = pipeline.ended(process)
        stats = queue.stats()
        assert (stats.ready, stats.in_flight, stats.dead) == (0, 0, 0)
    check(tmp_path / "rows")
    assert killed == EXECUTORS_KILLED, "it was done before all were killed"
    print(
        f"{MESSAGES} messages, two workers, {killed} executors killed, {pipeline.busy} runs that"
        f" could not start a process, in {time.monotonic() - began:.0f} s: none lost, none twice"
    )


def _kill_an_executor(
    pipeline: Pipeline, cluster: Cluster, process: psutil.Popen, draw: random.Random
) -> bool:
    """Kill one at a random moment, with its Python; return whether there was one."""
    until = sum(pipeline.steps().values()) + draw.randint(0, STEPS)
    _wait(process, lambda: sum(pipeline.steps().values()) >= until)
    time.sleep(draw.uniform(0, LATER))
    executors = _executors(cluster)
    for each in executors[:1] if draw.random() < 0.5 else executors[-1:]:
        kill(each)
        return True
    return False


def _executors(cluster: Cluster) -> list[psutil.Process]:
    """Return the running executors, whose folders are in those of their workers."""
    found = []
    for each in psutil.process_iter(["name"]):
        with suppress(psutil.Error):
            is_executor = "CoarseGrainedExecutorBackend" in " ".join(each.cmdline())
            if is_executor and Path(each.cwd()).is_relative_to(cluster.folder):
                found.append(each)
    return found


def payload(n: int) -> str:
    return f"{n:07d}" * REPEATED


def run_until_killed(pipeline: Pipeline, server: Server, draw: random.Random) -> None:
    """Kill a run at a random moment of a batch."""
    with redis.Redis.from_url(server.url) as client, pipeline.running() as process:
        epoch = client.hget("jobsCLAIMS:campaign", "epoch")
        _wait(process, lambda: client.hget("jobsCLAIMS:campaign", "epoch") != epoch)
        _pass(pipeline, process, draw)
        if not pipeline.outages and sum(pipeline.killed.values()) == OUTAGE:
            server.kill()
            server.start()
            pipeline.outages += 1
            _pass(pipeline, process, draw)
        assert not pipeline.ended(process), "it was done before all were killed"
        if process.poll() is None:
            pipeline.note()


def _pass(pipeline: Pipeline, process: psutil.Popen, draw: random.Random) -> None:
    """Let some steps pass, and half of the times some time more."""
    until = sum(pipeline.steps().values()) + draw.randint(0, STEPS)
    _wait(process, lambda: sum(pipeline.steps().values()) >= until)
    time.sleep(draw.choice([0.0, draw.uniform(0, LATER)]))


def _wait(process: psutil.Popen, condition: Callable[[], bool]) -> None:
    wait_until(lambda: process.poll() is not None or condition(), "the pipeline to go on", 300)


def run_to_the_end(pipeline: Pipeline) -> None:
    done = False
    while not done:
        with pipeline.running() as process:
            process.wait(1200)
            done = pipeline.ended(process)


def check(folder: Path) -> None:
    """Find each message once, whole, in complete folders."""
    import pyarrow.compute as pc
    import pyarrow.dataset

    incomplete = [
        path.name for path in folder.glob("ackq_batch=*") if not (path / "_SUCCESS").exists()
    ]
    assert not incomplete
    rows = pyarrow.dataset.dataset(folder, partitioning="hive").to_table(["id", "n", "payload"])
    numbers = Counter(rows["n"].to_pylist())
    twice = [n for n, count in numbers.items() if count > 1]
    lost = [n for n in range(MESSAGES) if n not in numbers]
    assert (len(lost), len(twice)) == (0, 0), f"lost: {lost[:5]}, twice: {twice[:5]}"
    assert len(numbers) == MESSAGES
    text = rows["n"].cast("string")
    assert pc.all(pc.equal(rows["id"], pc.binary_join_element_wise("m", text, ""))).as_py()
    padded = pc.utf8_lpad(text, 7, "0")
    assert pc.all(pc.equal(rows["payload"], pc.binary_repeat(padded, REPEATED))).as_py()
