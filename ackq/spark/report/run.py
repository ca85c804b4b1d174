"""`report`: looks at many queues and writes what it saw."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ackq.errors import ConfigurationError
from ackq.spark.given import RawOptions
from ackq.spark.options import Connection
from ackq.spark.quiet import quiet_session
from ackq.spark.report.messages import messages, overview
from ackq.spark.report.summary import Summary, summarise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The column of the Parquet files that tells one report from another.
TAKEN = "taken"


def report(
    queues: Iterable[str] = (),
    *,
    html: str | Path | None = None,
    parquet: str | None = None,
    url: str | None = None,
    spark: SparkSession | None = None,
) -> Summary:
    """Count, and write down, the dead letters and the messages in flight of ``queues``.

    Nothing is taken and nothing is changed. It is no snapshot: what moves while it runs may be
    missing or be there twice. Bodies are not in it.

    Args:
        queues: their names. Defaults to all that are found by the keys beside them.
        html: a file for the page with the pictures; replaced as a whole. Needs the extra
            ``report``.
        parquet: a folder; each report adds a partition ``taken=<time>`` with a row a message, so
            that one can look back at what has been redriven or dropped since.
        url: Redis, without a password. Defaults to ACKQ_REDIS_URL.
        spark: the session. Defaults to one of its own.

    Raises:
        ConfigurationError: there is to be a page, and matplotlib is missing.
        redis.ConnectionError: Redis cannot be reached.
    """
    if html is not None and find_spec("matplotlib") is None:
        raise ConfigurationError("the pictures need matplotlib: pip install 'ackq[report]'")
    options = {} if url is None else {"url": url}
    seen = overview(Connection.of(RawOptions(options, ["url"], "a report")), tuple(queues))
    with quiet_session("ackq report", {}, spark) as session:
        rows = messages(session, seen, options)
        summary = summarise(rows, seen)
        if parquet is not None:
            taken = datetime.fromtimestamp(seen.taken_at, UTC)
            # Colons in names of folders trouble some file systems.
            folder = f"{parquet.rstrip('/')}/{TAKEN}={taken:%Y-%m-%dT%H-%M-%SZ}"
            rows.write.mode("overwrite").parquet(folder)
    if html is not None:
        _write_page(Path(html), summary)
    return summary


def _write_page(path: Path, summary: Summary) -> None:
    from ackq.spark.report.page import page

    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(page(summary), encoding="utf-8")
    draft.replace(path)
