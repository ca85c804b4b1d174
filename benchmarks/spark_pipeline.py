"""``ackq pipeline run --once`` beside plain Spark that reads the same messages from a file.

Both are whole commands: they start Spark, parse the messages with one schema, apply one check,
write Parquet and end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from ackq import Queue
from ackq.bench.messages import Messages
from ackq.bench.rounds import Round, Rounds
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
from ackq.spark.command_session import quiet_session
source, target, ddl, check, settings = sys.argv[1:]
with quiet_session("plain", json.loads(settings), None) as spark:
    rows = spark.read.schema(f"{ddl}, _corrupt_record STRING").json(source)
    rows = rows.where(f"_corrupt_record IS NULL AND {check}").drop("_corrupt_record")
    rows.write.parquet(target)
"""

Turn = Callable[[Callable[[], int]], Round]


def commands(url: str, settings: Settings, size: int, turn: Turn) -> Rounds:
    """Return rounds of both commands, in turns; ``turn`` measures one."""
    rounds: Rounds = {PIPELINE: [], PLAIN: []}
    with tempfile.TemporaryDirectory(prefix="ackq-bench-") as name:
        supply = bodies(settings.seed, settings.messages, size)
        source = Path(name, "messages.ndjson")
        source.write_bytes(b"\n".join(supply))
        for number in range(settings.commands):
            progress(f"commands: round {number + 1} of {settings.commands}")
            with Queue.from_url(url, QUEUE) as queue:
                for at in range(0, len(supply), CHUNK):
                    queue.push_many(supply[at : at + CHUNK])
            folder = Path(name, str(number))
            folder.mkdir()
            made = {PIPELINE: _pipeline(folder, url), PLAIN: _plain(folder, source)}
            for contestant in list(made)[:: -1 if number % 2 else 1]:
                rounds[contestant].append(turn(made[contestant]))
    return rounds


def bodies(seed: int, count: int, size: int) -> list[bytes]:
    """Return messages that fit the schema."""
    supply = Messages(seed, size - _FIELDS)
    return [
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
    ]


def _pipeline(folder: Path, url: str) -> Callable[[], int]:
    """Return what runs a pipeline with all its defaults."""
    config, target = folder / "pipeline.toml", folder / "ackq"
    config.write_text(
        f'name = "benchmark"\ncheckpoint = "{folder}/checkpoint"\n'
        f'[source]\nqueue = "{QUEUE}"\n[schema]\nddl = "{DDL}"\n[checks]\nvalid = "{CHECK}"\n'
        f'[sink]\nformat = "parquet"\npath = "{target}"\n[spark]\n'
        + "".join(f'"{name}" = "{value}"\n' for name, value in SETTINGS.items())
    )
    return lambda: _run((_ACKQ, "pipeline", "run", str(config), "--once", "--url", url), target)


def _plain(folder: Path, source: Path) -> Callable[[], int]:
    target = folder / "plain"
    return lambda: _run((_PLAIN, source, target, DDL, CHECK, json.dumps(SETTINGS)), target)


def _run(arguments: Sequence[str | Path], target: Path) -> int:
    """Run a command; return how many rows it wrote."""
    import pyarrow.dataset

    done = subprocess.run(
        [sys.executable, "-c", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    if done.returncode:
        raise AssertionError(f"a command failed: {done.stderr[-2000:]}")
    rows: int = pyarrow.dataset.dataset(target, format="parquet").count_rows()
    return rows
