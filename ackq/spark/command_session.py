"""A session for commands: it prints nothing and does not handle Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ackq.spark.java import find_java, without_module
from ackq.spark.launch import is_submitted, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = Path(__file__).with_name("log4j2.properties").as_uri()
PARQUET_TIMES = "spark.sql.parquet.outputTimestampType"
#: Default settings of the session. Java would print its own warnings to stdout.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Others read Spark's INT96 as another year where nanoseconds since 1970 overflow.
    PARQUET_TIMES: "TIMESTAMP_MICROS",
    "spark.driver.defaultJavaOptions": "-Xlog:disable -Xlog:all=warning:stderr"
    f" -Dlog4j2.configurationFile={_LOG}",
}


@contextmanager
def quiet_session(
    name: str, settings: Mapping[str, str], existing: SparkSession | None
) -> Iterator[SparkSession]:
    """Yield ``existing``, or a new session that ends with the block."""
    if existing is not None:
        yield existing
        return
    config = {**SETTINGS, **settings}
    if is_submitted():
        config = _not_submitted(config)
    else:
        # Java would warn of its incubator module, which only speeds up the algebra of MLlib.
        os.environ["JAVA_HOME"] = str(without_module(find_java()))
    with _own_interrupts():
        spark = session(name, config=config)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        with suppress(ConnectionError):  # Spark's JVM may be gone
            spark.stop()


def _not_submitted(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that spark-submit did not set: its master, for one, wins."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    submitted = SparkConf()
    return {name: value for name, value in settings.items() if not submitted.contains(name)}


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore the handler of Ctrl-C, which a Spark context replaces to cancel its jobs."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
