"""An error of Spark in one line, which names its cause."""

from __future__ import annotations

import logging

import pytest

from ackq.spark.pipeline.failure import one_line

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


def test_the_whole_report_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ackq.spark"):
        one_line(RuntimeError("[A] b\nat c redis://:secret@host"))
    assert "at c" in caplog.text
    assert "secret" not in caplog.text
