"""An error of Spark in one line, which names its cause."""

import logging
from pathlib import Path
from typing import Any, cast

import pytest

from ackq.spark.pipeline.failure import advice, failure, one_line
from ackq.spark.pipeline.query import BatchCallback

#: Reports of Spark, shortened, and the line that is shown.
REPORTS = {
    # A disk that is full.
    """An error occurred while calling o5010.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.
\t... 20 more
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
""": "IOException: No space left on device",
    # A folder that cannot be written.
    """An error occurred while calling o51.save.
: java.io.IOException: Mkdirs failed to create file:/proc/out/_temporary/0
\tat org.apache.hadoop.fs.ChecksumFileSystem.create(ChecksumFileSystem.java:515)
""": "IOException: Mkdirs failed to create file:/proc/out/_temporary/0",
    # A cause without a message says less than the one before it.
    """An error occurred while calling o52.save.
: org.apache.spark.SparkException: Writing job aborted
Caused by: java.lang.NullPointerException
\tat a.b.C.d(E.java:1)
""": "SparkException: Writing job aborted",
    # The process of a source was killed.
    """[STREAM_FAILED] Query [id = 1] terminated with exception: (no cause message) SQLSTATE: XXKST
=== Streaming Query ===
""": "a Python process of Spark ended early: it was killed",
    """An error occurred while calling o53.save.
: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
\tat a.b.C.d(E.java:1)
Caused by: java.io.EOFException
""": "a Python process of Spark ended early: SparkException: Python worker exited unexpectedly"
    " (crashed)",
    # The error that ackq raised in one of Spark's processes.
    """[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed
Traceback (most recent call last):
ackq.errors.Fenced: another process took it over
Caused by: org.apache.spark.SparkException: x
""": "Fenced: another process took it over",
    "one line": "RuntimeError: one line",
}


@pytest.mark.parametrize("report", REPORTS)
def test_the_root_cause_is_named(report: str) -> None:
    assert one_line(RuntimeError(report)) == REPORTS[report]


class Batches(BatchCallback):
    """A batch that fails while a sink is written."""

    def _write(self, rows: Any, number: int) -> None:
        self.writing = "sinks.all"
        raise RuntimeError("[A] b\nat c redis://:secret@host")


def test_the_line_names_the_sink_and_the_report_is_logged_and_kept(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    batches = Batches()
    batches.start("")
    with pytest.raises(RuntimeError) as raised:
        batches(cast(Any, None), 7)
    with caplog.at_level(logging.INFO, "ackq.spark"):
        failed = failure("cars", raised.value, batches, tmp_path)
        failure("cars", raised.value, batches, None)
        failure("cars", raised.value, batches, tmp_path / "absent")
    kept = tmp_path / "last_failure.log"
    assert str(failed) == (
        "cars: batch 7 failed while [sinks.all] was written: RuntimeError: [A] b. Nothing is lost:"
        " the claimed messages are kept, and the next run begins with them. The whole report is in"
        f" {kept}"
    )
    assert failed.batch == 7
    assert kept.stat().st_mode & 0o777 == 0o600
    for report in (caplog.text, kept.read_text()):
        assert "at c" in report
        assert "Traceback" in report
        assert "secret" not in report


@pytest.mark.parametrize(
    ("report", "advised"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "raise spark.driver.memory in [spark]"),
        ("Python worker failed to connect back.", "too busy to start it within 10 seconds"),
        ("java.io.IOException: Broken pipe", "a smaller maxRecordsPerPartition"),
        ("java.io.IOException: No space left on device", ""),
    ],
)
def test_what_to_change_is_said(report: str, advised: str) -> None:
    text = advice(RuntimeError(report))
    assert advised in text
    assert bool(advised) == bool(text)
