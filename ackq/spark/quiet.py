"""A session for a command: it says nothing by itself, and leaves Ctrl-C to the command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ackq.spark.launch import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings of the session, where the user says no other.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile="
    + Path(__file__).with_name("log4j2.properties").as_uri(),
}


@contextmanager
def quiet_session(
    name: str, settings: Mapping[str, str], given: SparkSession | None
) -> Iterator[SparkSession]:
    """Yield the session that was given, else one of its own, which ends with the block."""
    if given is not None:
        yield given
        return
    with _own_interrupts():
        spark = session(name, config={**SETTINGS, **settings})
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Undo that a Spark context takes Ctrl-C for itself, to cancel its jobs."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
