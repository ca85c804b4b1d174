"""How a checkpoint is written. The kills of test_pipeline_kills use the same."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ackq.spark import checkpoint
from ackq.spark.checkpoint import quicken

SETTING = "spark.sql.streaming.checkpointFileManagerClass"


def test_a_local_checkpoint_is_written_without_processes(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert spark.conf.get(SETTING) == checkpoint._WRITER  # since ackq.spark.session made it
    own = spark.newSession()
    assert quicken(own, str(tmp_path / "state"))
    assert own.conf.get(SETTING) == checkpoint._WRITER
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.json").write_text("{}")
    frame = own.readStream.schema("id STRING").json(str(tmp_path / "input"))
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "state")).start()
    assert query.awaitTermination(60)
    assert (tmp_path / "state" / "commits" / "0").exists()


def test_other_checkpoints_settings_and_releases_of_spark_are_left_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = spark.newSession()
    theirs.conf.set(SETTING, "a.b.C")
    assert not quicken(theirs, str(tmp_path))
    assert theirs.conf.get(SETTING) == "a.b.C"
    assert not quicken(spark.newSession(), "webhdfs://127.0.0.1:1/state")
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "_WRITER", "org.apache.spark.Gone")
        assert not quicken(spark.newSession(), str(tmp_path))
