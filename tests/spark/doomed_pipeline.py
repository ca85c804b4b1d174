"""A pipeline between two queues that waits at a point to be killed.

``python -m tests.spark.doomed_pipeline FOLDER CONFIG POINT``, where CONFIG is JSON.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import tests.spark.doomed as doomed
from ackq.spark.pipeline import Pipeline, run, sinks
from ackq.spark.pipeline.micro_batches import MicroBatchHandler
from ackq.spark.pipeline.plan import Plan
from ackq.spark.shards import Batch
from tests.spark.conftest import SMALL

#: In processes of their own, where the module in faults/ kills the driver: while an executor writes
#: rejected rows, and within the sink's commit.
FAULTS = {"rejecting": "reject:1:4", "staged": "commit:1:1", "moving": "move:1:1"}
#: The points of the source, and between them those of a batch of the pipeline, in their order.
POINTS = (*doomed.POINTS[:4], "rejecting", "rejected", "staged", "moving", "committed", "logged")
#: The prefix of a point in a run with Structured Streaming, and those that it passes otherwise.
STREAMING = "streaming: "
STREAMED = tuple(f"{STREAMING}{point}" for point in (*doomed.POINTS, "committed"))


def main(folder: Path, config: dict[str, Any], point: str) -> None:
    """Run until the point, and wait there."""
    from ackq.spark import session

    warnings.simplefilter("ignore")
    if point.startswith(STREAMING):
        point = point.removeprefix(STREAMING)
        setattr(Plan, "uses_current_time", lambda plan, session: True)  # noqa: B010
    os.environ[doomed.POINT], os.environ[doomed.FOLDER] = point, str(folder)
    spark = session("doomed", master="local[2]", config={**SMALL, **doomed.logged(folder)})
    spark.sparkContext.setLogLevel("OFF")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    (folder / "pids").write_text(f"{jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}")
    spark.dataSource.register(doomed.DoomedSource)
    run.SOURCE = doomed.DoomedSource
    _stop_within_a_batch()
    Pipeline(config, spark=spark).run(once=True)


def _stop_within_a_batch() -> None:
    write, reject = sinks.write, MicroBatchHandler._reject

    def doomed_write(sink: Any, rows: Any, batch: Batch) -> None:
        write(sink, rows, batch)
        if batch.number == doomed.BATCH:
            doomed.stop_at("committed")

    def doomed_reject(handler: MicroBatchHandler, checked: Any, batch: Batch) -> Any:
        reasons = reject(handler, checked, batch)
        if batch.number == doomed.BATCH:
            doomed.stop_at("rejected")
        return reasons

    sinks.write = doomed_write
    setattr(MicroBatchHandler, "_reject", doomed_reject)  # noqa: B010


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3])
