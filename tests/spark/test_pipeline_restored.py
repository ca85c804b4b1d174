"""Checkpoints that were restored or copied, and runs that overlap: no row is lost, none twice."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.errors import PipelineFailed, PipelineFenced
from ackq.spark.pipeline import Pipeline
from ackq.spark.pipeline import sinks as pipeline_sinks
from ackq.spark.pipeline.micro_batches import MicroBatchHandler
from ackq.spark.pipeline.sinks import Disk
from tests.spark.test_pipeline import Make, ids, make, push, written

__all__ = ["make"]

#: Seconds that a test waits for a run; on a busy machine, processes of Spark start slowly.
PATIENCE = 120


def _newest(folder: Path) -> Path:
    return max(folder.glob("[0-9]*"), key=lambda each: int(each.name))


@pytest.mark.parametrize("lost", [("offsets", "commits"), ("commits", "commits")])
def test_a_checkpoint_from_a_backup_acks_nothing_and_an_empty_one_goes_on(
    make: Make, queue: Queue, tmp_path: Path, lost: tuple[str, ...]
) -> None:
    good = push(queue, 0, 80)
    make().run(once=True)
    for name in lost:
        _newest(tmp_path / "checkpoint" / name).unlink()
    good += push(queue, 80, 100)
    with pytest.raises(PipelineFailed, match="the checkpoint is older than Redis"):
        make().run(once=True)
    assert queue.stats().ready == 20
    progress = make(checkpoint=str(tmp_path / "new")).run(once=True)
    assert progress.rows == 20
    assert ids(written(tmp_path / "out")) == good


def test_the_last_batch_of_a_run_is_readable_if_only_its_commit_is_lost(
    make: Make, queue: Queue, tmp_path: Path
) -> None:
    good = push(queue, 0, 80)
    make().run(once=True)
    _newest(tmp_path / "checkpoint" / "commits").unlink()
    good += push(queue, 80, 100)
    assert make().run(once=True).rows == 40 + 20
    assert ids(written(tmp_path / "out")) == good
    assert queue.stats().ready == 0


def test_two_copies_of_a_checkpoint_write_each_batch_once(
    make: Make, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first dies when its batch is written, and the second finds that batch by its claim."""
    good = push(queue, 0, 40)
    with monkeypatch.context() as patched:
        patched.setattr(MicroBatchHandler, "_publish", _then_die(MicroBatchHandler._publish))
        with pytest.raises(PipelineFailed, match="killed"):
            make().run(once=True)
    shutil.rmtree(tmp_path / "checkpoint" / "offsets")
    assert make().run(once=True).rows == 40
    assert ids(written(tmp_path / "out")) == good


@pytest.mark.parametrize("step", ["written", "checked", "published"])
def test_a_run_that_was_frozen_and_replaced_writes_nothing_twice(
    make: Make, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    good = push(queue, 0, 20)
    frozen, go = threading.Event(), threading.Event()

    def freezing(method: Callable[..., Any], *, first: bool) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            done = None if first else method(*args)
            if not frozen.is_set():
                frozen.set()
                assert go.wait(PATIENCE)
            return method(*args) if first else done

        return run

    steps: dict[str, tuple[Any, str, bool]] = {
        "written": (pipeline_sinks, "publish", True),
        "checked": (Disk, "rename", True),
        "published": (pipeline_sinks, "publish", False),
    }
    owner, name, first = steps[step]
    monkeypatch.setattr(owner, name, freezing(getattr(owner, name), first=first))
    errors: list[BaseException] = []
    earlier = threading.Thread(target=_run, args=(make(), errors))
    earlier.start()
    try:
        assert frozen.wait(PATIENCE)
        make().run(once=True)
        good += push(queue, 20, 30)
        make().run(once=True)
        assert ids(written(tmp_path / "out")) == good
    finally:
        go.set()
        earlier.join(PATIENCE)
    assert [type(error) for error in errors] == [PipelineFenced]
    assert "\n" not in str(errors[0])
    assert ids(written(tmp_path / "out")) == good
    assert queue.stats().claimed == 0


def test_hadoop_renames_a_folder_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_sinks, "local_folder", lambda spark, path: None)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows").write_text(name)
    disk = Disk(spark, str(tmp_path))
    assert disk.rename(f"{tmp_path}/first", f"{tmp_path}/batch")
    assert not disk.rename(f"{tmp_path}/second", f"{tmp_path}/batch")
    assert (tmp_path / "batch" / "rows").read_text() == "first"
    assert [each.name for each in (tmp_path / "batch").iterdir()] == ["rows"]


def _run(pipeline: Pipeline, errors: list[BaseException]) -> None:
    try:
        pipeline.run(once=True)
    except BaseException as error:
        errors.append(error)


def _then_die(method: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> None:
        method(*args)
        raise OSError("killed")

    return run
