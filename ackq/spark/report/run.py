"""`report`: read many queues and write a report."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ackq.errors import ConfigurationError
from ackq.spark.command_session import quiet_session
from ackq.spark.connection import Connection
from ackq.spark.raw_options import RawOptions
from ackq.spark.report.messages import messages, overview
from ackq.spark.report.summary import Summary, summarise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The column of the Parquet files with the time of the report.
TIME_COLUMN = "taken"


def report(
    queues: Iterable[str] = (),
    *,
    html: str | Path | None = None,
    parquet: str | None = None,
    url: str | None = None,
    spark: SparkSession | None = None,
) -> Summary:
    """Report the dead letters and the messages in flight of ``queues``.

    Takes and changes no messages, and contains no bodies. A report is not a snapshot: messages that
    are taken or settled in the meantime may be missing or appear twice.

    Args:
        queues: names of the queues. Defaults to all queues found.
        html: the file for a page with charts. An existing file is replaced when the page is
            complete. Requires the extra ``report``.
        parquet: a folder. Each report adds a partition ``taken=<time>`` with one row per message,
            so you can look up messages that have been redriven or dropped since.
        url: the URL of Redis, without a password. Defaults to ACKQ_REDIS_URL.
        spark: the session. Defaults to a session of its own.

    Raises:
        ConfigurationError: ``html`` is set, but matplotlib is missing.
        redis.ConnectionError: Redis cannot be reached.
    """
    if html is not None and find_spec("matplotlib") is None:
        raise ConfigurationError("the charts need matplotlib: pip install 'ackq[report]'")
    options = {} if url is None else {"url": url}
    taken = overview(Connection.of(RawOptions(options, ["url"], "a report")), tuple(queues))
    with quiet_session("ackq report", {}, spark) as session:
        rows = messages(session, taken, options)
        summary = summarise(rows, taken)
        if parquet is not None:
            time = datetime.fromtimestamp(taken.taken_at, UTC)
            # Some file systems do not allow colons in names.
            folder = f"{parquet.rstrip('/')}/{TIME_COLUMN}={time:%Y-%m-%dT%H-%M-%SZ}"
            rows.write.mode("overwrite").parquet(folder)
    if html is not None:
        _write_page(Path(html), summary)
    return summary


def _write_page(path: Path, summary: Summary) -> None:
    from ackq.spark.report.page import page

    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(page(summary), encoding="utf-8")
    draft.replace(path)
