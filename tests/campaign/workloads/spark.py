"""Spark: a pipeline, the source alone and the sink alone, whose drivers are killed.

Each row must be there once in the end, whoever was killed.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import ackq
from tests.campaign.site import Site
from tests.products.bodies import id_of
from tests.products.product import Entries, Noted, Taken
from tests.spark.home import environment

from .listed import ListRig
from .rig import Role, Workload

_ROOT = Path(__file__).parents[3]
_TARGET = "{jobs}-rows"
_PR_SET_PDEATHSIG = 1


class PipelineRig(ListRig):
    """`ackq pipeline run --once`, again and again."""

    rules: ClassVar[dict[str, Any]] = {"rows": True}
    delayed = 0.0

    def __init__(self, site: Site, workload: Workload) -> None:
        super().__init__(site, workload)
        assert site.folder is not None
        self._folder = site.folder / "pipeline"
        self._into_files = workload.settings["sink"] == "files"

    async def prepare(self) -> None:
        self._folder.mkdir()
        sink = 'path = "rows"\nformat = "json"' if self._into_files else f'queue = "{_TARGET}"'
        (self._folder / "pipeline.toml").write_text(f"""
checkpoint = "state"
every = 0
[source]
queue = "{self.site.name}"
[source.options]
maxMessagesPerTrigger = 500
[schema]
ddl = "id STRING, pad STRING"
[sink]
{sink}
[spark]
"spark.master" = "local[2]"
"spark.ui.enabled" = "false"
"spark.sql.shuffle.partitions" = 1
""")

    async def serve(self, role: Role) -> None:
        role.log.close()  # to show that this process has begun
        while not role.is_over():
            with self._run(once=False) as driver:
                while driver.poll() is None and not role.is_over():
                    await self.sleep(0.05)
                driver.kill()

    async def take(self, n: int, timeout: float | None, done: Sequence[Any]) -> Taken:
        """Take nothing, but let a driver write all that is left."""
        with self._run(once=True) as driver:
            driver.wait()
        return [], {}

    async def left(self) -> dict[str, Any]:
        rows = self._rows_of_files() if self._into_files else self._rows_of_queue()
        return {**(await super().left()), "rows": rows}

    def _run(self, once: bool) -> subprocess.Popen[bytes]:
        """Start a driver, which ends with its parent, as its JVM ends with the driver."""
        log = (self._folder / "drivers.log").open("ab")
        url = f"redis://127.0.0.1:{self.site.port}"
        return subprocess.Popen(
            [sys.executable, *self._command(once)],
            cwd=_ROOT,
            env={**os.environ, **environment(), "ACKQ_REDIS_URL": url},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            preexec_fn=_end_with_parent,
        )

    def _command(self, once: bool) -> list[str]:
        """Return what Python is to run: until nothing is left, or for as long as it lives."""
        pipeline = str(self._folder / "pipeline.toml")
        return ["-c", "from ackq.cli import main; main()", "pipeline", "run", pipeline, "--once"]

    def _rows_of_files(self) -> list[str]:
        files = self._folder.glob("rows/**/*.json")
        return [json.loads(line)["id"] for file in files for line in file.open()]

    def _rows_of_queue(self) -> list[str]:
        rows: list[str] = []
        with self.site.client() as client:
            target = ackq.Queue(client, _TARGET)
            while found := target.pop_many(1000):
                rows += [id_of(each.body) for each in found]
                target.ack(*found)
            target.close()
        return rows


class SourceRig(PipelineRig):
    """The source, and Spark's own file sink."""

    async def prepare(self) -> None:
        self._folder.mkdir()

    def _command(self, once: bool) -> list[str]:
        return _query("source", self._folder, self.site.name, once)

    def _rows_of_files(self) -> list[str]:
        """Return the rows that Spark's sink has committed: files of failed attempts stay behind."""
        rows = self._folder / "rows"
        paths = {
            json.loads(line)["path"].rpartition("/")[2]
            for log in rows.glob("_spark_metadata/[0-9]*")
            for line in log.read_text().splitlines()[1:]
        }
        return [json.loads(line)["id"] for path in paths for line in (rows / path).open()]


class SinkRig(PipelineRig):
    """The sink, and Spark's own source of files. A push is a file."""

    async def prepare(self) -> None:
        (self._folder / "incoming").mkdir(parents=True)

    def _command(self, once: bool) -> list[str]:
        return _query("sink", self._folder, _TARGET, once)

    async def push(self, entries: Entries, delay: float, is_once: bool) -> Noted:
        path = self._folder / f"{entries[0][0]}.json"
        path.write_bytes(b"".join(body + b"\n" for _, body in entries))
        path.rename(self._folder / "incoming" / path.name)
        return {}

    async def stored(self) -> int:
        """Return how many rows have not arrived."""
        files = self._folder.glob("incoming/*.json")
        pushed = sum(path.read_bytes().count(b"\n") for path in files)
        with self.site.client() as client, ackq.Queue(client, _TARGET) as target:
            return max(0, pushed - target.stats().ready)


def _query(kind: str, folder: Path, queue: str, once: bool) -> list[str]:
    command = ["-m", "tests.campaign.workloads.queries", kind, str(folder), queue]
    return [*command, "--once"] if once else command


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
