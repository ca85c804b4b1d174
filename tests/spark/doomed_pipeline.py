"""A pipeline between two queues that waits at a point to be killed.

``python -m tests.spark.doomed_pipeline FOLDER CONFIG POINT``, where CONFIG is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import tests.spark.doomed as doomed
from ackq.spark.pipeline import Pipeline, micro_batches, run, sinks
from tests.spark.conftest import SMALL

#: Within the sink's commit, in a process of its own: there the module in faults/ kills the driver.
SINK_POINTS = {"staged": "commit:1:1", "moving": "move:1:1"}
#: Those of the source, and between them those of a batch of the pipeline, in their order.
POINTS = (*doomed.POINTS[:4], "rejecting", "rejected", *SINK_POINTS, "committed", "logged")


def main(folder: Path, config: dict[str, Any], point: str) -> None:
    """Run until the point, and wait there."""
    from ackq.spark import session

    warnings.simplefilter("ignore")
    os.environ[doomed.POINT], os.environ[doomed.FOLDER] = point, str(folder)
    spark = session("doomed", master="local[2]", config={**SMALL, **doomed.logged(folder)})
    spark.sparkContext.setLogLevel("OFF")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    (folder / "pids").write_text(f"{jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}")
    spark.dataSource.register(doomed.DoomedSource)
    run.FORMAT = doomed.DoomedSource.name()
    _stop_within_a_batch()
    Pipeline(config, spark=spark).run(once=True)


def _stop_within_a_batch() -> None:
    reject, write = micro_batches.MicroBatchHandler._write_rejects, sinks.write

    def doomed_reject(self: Any, queue: str, number: int, rows: list[Any]) -> None:
        if number == doomed.BATCH and doomed_at("rejecting"):
            reject(self, queue, number, rows[: len(rows) // 2])
            doomed.stop_at("rejecting")
        reject(self, queue, number, rows)

    def doomed_write(sink: Any, rows: Any, query_id: str, number: int) -> None:
        if number == doomed.BATCH:
            doomed.stop_at("rejected")
        write(sink, rows, query_id, number)
        if number == doomed.BATCH:
            doomed.stop_at("committed")

    micro_batches.MicroBatchHandler._write_rejects = doomed_reject  # type: ignore[method-assign]
    sinks.write = doomed_write  # type: ignore[assignment]


def doomed_at(point: str) -> bool:
    """Return whether this run is to stop at the point."""
    return os.environ[doomed.POINT] == point


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3])
