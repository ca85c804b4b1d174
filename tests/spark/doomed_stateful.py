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
from ackq.spark.pipeline import Pipeline, row_log, sinks, stateful
from tests.spark.conftest import SMALL

#: Those of the log of rows, then those of a batch of a stateful query, in their order.
POINTS = ("drafted", "appended", "read", "evaluated", "resulted", "committed")
#: Those of a run that ends by itself.
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
    rename, write, result = row_log._Disk.rename, stateful._Results._write, sinks.write_result

    def doomed_rename(disk: Any, old: str, new: str) -> None:
        is_doomed = new.endswith(f"-{doomed.BATCH:09d}")
        if is_doomed:
            doomed.stop_at("drafted")
        rename(disk, old, new)
        if is_doomed:
            doomed.stop_at("appended")

    def doomed_write(results: Any, rows: Any, number: int) -> None:
        if number == doomed.BATCH:
            doomed.stop_at("read")
        elif number == doomed.BATCH + 1:
            doomed.stop_at("committed")
        write(results, rows, number)

    def doomed_result(sink: Any, rows: Any, query_id: str, number: int) -> None:
        if number == doomed.BATCH:
            doomed.stop_at("evaluated")
        result(sink, rows, query_id, number)
        if number == doomed.BATCH:
            doomed.stop_at("resulted")

    row_log._Disk.rename = doomed_rename  # type: ignore[assignment,method-assign]
    stateful._Results._write = doomed_write  # type: ignore[assignment,method-assign]
    sinks.write_result = doomed_result  # type: ignore[assignment]


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3])
