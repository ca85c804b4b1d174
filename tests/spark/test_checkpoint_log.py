"""The files of a checkpoint that a run without Structured Streaming writes."""

import json
import os
from pathlib import Path

import pytest

from ackq.errors import ConfigurationError, Fenced
from ackq.spark.pipeline.checkpoint_log import KEPT, CheckpointLog


def test_the_id_of_a_query_is_created_once(tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path / "state")
    assert log.query_id() == log.query_id() == CheckpointLog(tmp_path / "state").query_id()


def test_a_batch_is_planned_and_committed_by_one_process(tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path)
    assert (log.committed(), log.planned(0)) == (-1, None)
    log.plan(0, {"batch": 1})
    with pytest.raises(Fenced):
        log.plan(0, {"batch": 2})
    assert log.planned(0) == {"batch": 1}
    log.commit(0)
    with pytest.raises(Fenced):
        log.commit(0)
    assert log.committed() == 0
    assert sorted(each.name for each in tmp_path.rglob("*") if each.is_file()) == ["0", "0"]


def test_a_disk_without_hard_links_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: Path, target: Path) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    log = CheckpointLog(tmp_path)
    log.plan(0, {"batch": 1})
    with pytest.raises(Fenced):
        log.plan(0, {"batch": 2})
    assert log.planned(0) == {"batch": 1}
    assert os.listdir(tmp_path / "offsets") == ["0"]


def test_settings_that_spark_recorded_are_kept_and_the_time_is_new(tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path)
    log.plan(0, {})
    path = tmp_path / "offsets" / "0"
    version, _, end = path.read_text().split("\n")
    theirs = {"batchWatermarkMs": 5, "batchTimestampMs": 7, "conf": {"a": "b"}}
    path.write_text("\n".join((version, json.dumps(theirs), end)))
    log.plan(1, {})
    found = json.loads((tmp_path / "offsets" / "1").read_text().split("\n")[1])
    assert found.pop("batchTimestampMs") > 7
    assert found == {"batchWatermarkMs": 5, "conf": {"a": "b"}}


def test_old_files_are_deleted_with_their_checksums(tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path)
    for batch in range(KEPT + 2):
        log.plan(batch, {})
        (tmp_path / "offsets" / f".{batch}.crc").touch()
        log.commit(batch)
    left = sorted((each.name for each in (tmp_path / "offsets").iterdir()), key=len)
    assert len(left) == 2 * KEPT
    assert {"0", "1", ".0.crc", ".1.crc"}.isdisjoint(left)


def test_the_checksum_of_another_file_is_removed_before_the_name_is_given(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / ".0.crc").touch()
    CheckpointLog(tmp_path).plan(0, {})
    assert not (tmp_path / "offsets" / ".0.crc").exists()


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1\n{}", "v1\n{}\n{}\n{}", ""])
def test_another_format_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(ConfigurationError, match="the release of Spark that wrote it"):
        CheckpointLog(tmp_path).planned(0)
