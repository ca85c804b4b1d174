"""``ackq pipeline run --once`` beside plain Spark that reads the same messages from a file.

Both are whole commands: they start Spark, parse the messages with one schema, apply one check,
write Parquet and end. They run at the same time, so that a disturbance affects both. The CPU is
that of all their processes, without Redis.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import orjson

from ackq import Queue
from ackq.bench.messages import Messages
from benchmarks.frame import Settings, progress
from benchmarks.spark_queries import SETTINGS

PIPELINE, PLAIN = "ackq pipeline run --once", "plain Spark, from a file"
QUEUE = "ackq-benchmark:pipeline"
#: The schema, and the check that all messages pass.
DDL = "id STRING, n BIGINT, price DOUBLE, ok BOOLEAN, payload STRING"
CHECK = "price >= 0 AND n < 1000000000"
CHUNK = 1000
#: Bytes of a message besides its id and its payload.
_FIELDS = 40
_ACKQ = "from ackq.cli import main; main()"
_PLAIN = """
import json, sys
from ackq.spark.launch import quiet_session
source, target, ddl, check, settings = sys.argv[1:]
with quiet_session("plain", json.loads(settings), None) as spark:
    rows = spark.read.schema(f"{ddl}, _corrupt_record STRING").json(source)
    rows = rows.where(f"_corrupt_record IS NULL AND {check}").drop("_corrupt_record")
    rows.write.parquet(target)
"""


class Spent(NamedTuple):
    """What one command took, in seconds."""

    wall: float
    cpu: float


def commands(url: str, settings: Settings, size: int) -> dict[str, list[Spent]]:
    """Return what each command took in each round."""
    spent: dict[str, list[Spent]] = {PIPELINE: [], PLAIN: []}
    with tempfile.TemporaryDirectory(prefix="ackq-bench-") as name:
        source = Path(name, "messages.ndjson")
        with source.open("wb") as file:
            file.writelines(
                b"%b\n" % each for each in bodies(settings.seed, settings.messages, size)
            )
        # Read them again: orjson's own bytes keep 4 KiB each.
        supply = source.read_bytes().splitlines()
        for number in range(settings.commands):
            progress(f"commands: round {number + 1} of {settings.commands}")
            with Queue.from_url(url, QUEUE) as queue:
                for at in range(0, len(supply), CHUNK):
                    queue.push_many(supply[at : at + CHUNK])
            folder = Path(name, str(number))
            folder.mkdir()
            made = {PIPELINE: _pipeline(folder, url), PLAIN: _plain(folder, source)}
            with ExitStack() as stack:
                running = {each: stack.enter_context(made[each]) for each in made}
                for contestant, command in running.items():
                    spent[contestant].append(command.wait(settings.messages))
    return spent


def bodies(seed: int, count: int, size: int) -> Iterator[bytes]:
    """Return messages that fit the schema."""
    supply = Messages(seed, size - _FIELDS)
    return (
        orjson.dumps(
            {
                "id": f"m{n:08d}",
                "n": n,
                "price": n / 100,
                "ok": n % 2 == 0,
                "payload": each["payload"],
            }
        )
        for n, each in enumerate(supply.many(count))
    )


class _Command:
    """A command that writes rows into a folder. Used as a context manager, it runs meanwhile."""

    def __init__(self, arguments: Sequence[str | Path], target: Path) -> None:
        self._target = target
        self._result = target.with_suffix(".json")
        measured = ("-m", "benchmarks.tree_cpu", self._result, sys.executable, "-c", *arguments)
        self._arguments = [sys.executable, *map(str, measured)]

    def __enter__(self) -> _Command:
        self._output = self._target.with_suffix(".log").open("w+")
        self._process = subprocess.Popen(
            self._arguments, stdout=self._output, stderr=subprocess.STDOUT
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._output.close()

    def wait(self, messages: int) -> Spent:
        """Wait for its end; check that it wrote all messages."""
        import pyarrow.dataset

        if self._process.wait():
            self._output.seek(0)
            raise AssertionError(f"a command failed: {self._output.read()[-2000:]}")
        rows = pyarrow.dataset.dataset(self._target, format="parquet").count_rows()
        if rows != messages:
            raise AssertionError(f"{rows} of {messages} messages came")
        found = json.loads(self._result.read_text())
        return Spent(found["seconds"], found["cpu"])


def _pipeline(folder: Path, url: str) -> _Command:
    """Return a pipeline with all its defaults."""
    config, target = folder / "pipeline.toml", folder / "ackq"
    config.write_text(
        f'name = "benchmark"\ncheckpoint = "{folder}/checkpoint"\n'
        f'[source]\nqueue = "{QUEUE}"\n[schema]\nddl = "{DDL}"\n[checks]\nvalid = "{CHECK}"\n'
        f'[sink]\nformat = "parquet"\npath = "{target}"\n[spark]\n'
        + "".join(f'"{name}" = "{value}"\n' for name, value in SETTINGS.items())
    )
    return _Command((_ACKQ, "pipeline", "run", config, "--once", "--url", url), target)


def _plain(folder: Path, source: Path) -> _Command:
    target = folder / "plain"
    return _Command((_PLAIN, source, target, DDL, CHECK, json.dumps(SETTINGS)), target)
