"""``python -m tests.campaign.workloads.queries KIND FOLDER QUEUE``: a query of Spark.

``source`` reads a queue into Spark's own file sink. ``sink`` writes files, as Spark's own source
reads them, into a queue. It goes on until it is killed; with ``--once``, until nothing is left.
"""

import argparse
from pathlib import Path
from typing import Any

_SMALL: dict[str, str | int | bool] = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": 1,
}


def _source(spark: Any, folder: Path, queue: str) -> Any:
    rows = spark.readStream.format("ackq").schema("id STRING, pad STRING")
    rows = rows.option("maxMessagesPerTrigger", 500).load(queue)
    return rows.writeStream.format("json").option("path", str(folder / "rows"))


def _sink(spark: Any, folder: Path, queue: str) -> Any:
    rows = spark.readStream.schema("id STRING, pad STRING").option("maxFilesPerTrigger", 5)
    rows = rows.json(str(folder / "incoming"))
    return rows.writeStream.format("ackq").option("queue", queue)


def main() -> None:
    """Run the query."""
    from ackq.spark import session

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("source", "sink"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("queue")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    spark = session("campaign", master="local[2]", config=_SMALL)
    make = _source if options.kind == "source" else _sink
    query = make(spark, options.folder, options.queue)
    query = query.option("checkpointLocation", str(options.folder / "state"))
    query = query.trigger(**{"availableNow": True} if options.once else {"processingTime": "0 s"})
    query.start().awaitTermination()


if __name__ == "__main__":
    main()
