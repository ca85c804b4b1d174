"""Imported by every Python process of a driver under test: dies where FAULT says, or lacks pandas.

FAULT is ``place:batch:count``, with batches counted from 0 as they come by. The fault kills the
driver's JVM and its Python process, whose ids are in the file PIDS, at the given time that the
batch comes to that place. Then this process ends.
With NO_PANDAS, pandas cannot be imported, as after `pip install ackq[spark]`.
"""

import fcntl
import os
import signal
import sys
from importlib.abc import MetaPathFinder
from typing import Any

from ackq.delay.staging_client import DelayStaging
from ackq.queue.row_dead_letters_client import RowDeadLetters
from ackq.queue.staging_client import Staging
from ackq.spark import sink
from ackq.staging.client import StagingBase
from ackq.topic.staging_client import TopicStaging


def die() -> None:
    """End the driver as a power cut would."""
    with open(os.environ["PIDS"]) as file:
        for pid in file.read().split():
            os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def ordinal(batch: object) -> int:
    """Return how many batches came by in any process before this one did for the first time."""
    number = str(batch).rpartition("-")[2].lstrip("0")
    with open(f"{os.environ['PIDS']}.batches", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = file.read().splitlines()
        if number not in known:
            file.write(f"{number}\n")
            known.append(number)
    return known.index(number)


def plant(fault: str) -> None:
    """Put the fault into the classes that stage, commit and write dead letters."""
    place, batch_text, count_text = fault.split(":")
    wanted, left = int(batch_text), int(count_text)
    inner_stage, inner_commit = StagingBase.stage, StagingBase.commit
    inner_reject = RowDeadLetters.reject
    current: list[object] = [-1]

    def come_by(here: str, batch: object) -> None:
        nonlocal left
        if ordinal(batch) == wanted and here == place:
            left -= 1
            if left == 0:
                die()

    def stage(self: Any, batch: int, *args: Any) -> None:
        inner_stage(self, batch, *args)
        come_by("stage", batch)

    def commit(self: Any, batch: int, tasks: Any) -> int:
        current[0] = batch
        come_by("commit", batch)
        committed = inner_commit(self, batch, tasks)
        come_by("committed", batch)
        return committed

    def reject(self: Any, batch: str, rows: list[Any]) -> int:
        inner_reject(self, batch, rows[: len(rows) // 2])
        come_by("reject", batch)
        return inner_reject(self, batch, rows)

    setattr(RowDeadLetters, "reject", reject)  # noqa: B010
    setattr(StagingBase, "stage", stage)  # noqa: B010
    setattr(StagingBase, "commit", commit)  # noqa: B010
    for cls in (Staging, TopicStaging, DelayStaging):
        plant_move(cls, lambda: come_by("move", current[0]))


def plant_move(cls: Any, after: Any) -> None:
    """Come by after each move of rows."""
    inner = cls._mover

    def mover(self: Any) -> Any:
        move = inner(self)

        def step(name: bytes) -> Any:
            left = yield from move(name)
            after()
            return left

        return step

    cls._mover = mover


class NoPandas(MetaPathFinder):
    """Pandas is not installed."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")


# Few rows are staged too, and in several lists.
sink.COLLECTED_ROWS = 2000
if "FAULT" in os.environ:
    plant(os.environ["FAULT"])
if "NO_PANDAS" in os.environ:
    sys.meta_path.insert(0, NoPandas())
