"""A pipeline with stateful sinks that waits at a point to be killed.

``python -m tests.spark.doomed_stateful FOLDER CONFIG POINT``, where CONFIG is JSON.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import tests.spark.doomed as doomed
from ackq.spark.pipeline import Pipeline, sinks, stateful
from ackq.spark.pipeline.sinks import Drafts
from ackq.spark.shards import Batch
from tests.spark.conftest import SMALL

#: The points of the log of rows, then those of a batch of a stateful query, in their order.
POINTS = ("drafted", "appended", "read", "evaluated", "resulted", "committed")
#: The points of a run that ends by itself.
ONCE = ("drafted", "appended")


def main(folder: Path, config: dict[str, Any], point: str) -> None:
    """Run until the point, and wait there."""
    from ackq.spark import session

    warnings.simplefilter("ignore")
    os.environ[doomed.POINT], os.environ[doomed.FOLDER] = point, str(folder)
    spark = session("doomed", master="local[2]", config={**SMALL})
    spark.sparkContext.setLogLevel("OFF")
    _stop_within_a_batch()
    Pipeline(config, spark=spark).run(once=point in ONCE)


def _stop_within_a_batch() -> None:
    publish, write, result = Drafts.publish, stateful._Results._write, sinks.write_result

    def doomed_publish(drafts: Drafts, batch: Batch) -> None:
        is_doomed = batch.number == doomed.BATCH and batch.rows > 0  # of the log
        if is_doomed:
            doomed.stop_at("drafted")
        publish(drafts, batch)
        if is_doomed:
            doomed.stop_at("appended")

    def doomed_write(results: Any, rows: Any, number: int) -> None:
        if number == doomed.BATCH:
            doomed.stop_at("read")
        elif number == doomed.BATCH + 1:
            doomed.stop_at("committed")
        write(results, rows, number)

    def doomed_result(sink: Any, rows: Any, batch: Batch) -> None:
        if batch.number == doomed.BATCH:
            doomed.stop_at("evaluated")
        result(sink, rows, batch)
        if batch.number == doomed.BATCH:
            doomed.stop_at("resulted")

    Drafts.publish = doomed_publish  # type: ignore[assignment,method-assign]
    stateful._Results._write = doomed_write  # type: ignore[assignment,method-assign]
    sinks.write_result = doomed_result


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3])
