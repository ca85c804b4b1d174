"""A small Spark session for the tests of a process, and the queues that they read.

Every test here is marked ``spark``. Those that use the session have one group, because a session is
large: ``--dist loadgroup`` runs them in one process. Without PySpark none is collected, and the
header says so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from ackq import Queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.batches import Batches
    from tests.spark.engine import Checkpoint, Engine

_ABSENT = [each for each in ("pyspark", "pyarrow") if importlib.util.find_spec(each) is None]
if _ABSENT:
    collect_ignore_glob = ["test_*.py"]

#: Seconds that one test may take.
TIMEOUT = 240
#: A session that is up soon and leaves room for others.
SMALL: dict[str, str | int | bool] = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.session.timeZone": "UTC",
}


def pytest_report_header() -> str | None:
    return f"spark: its tests are left out, {' and '.join(_ABSENT)} is missing" if _ABSENT else None


# First, since xdist looks for groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker("spark")
            session = "spark" in getattr(item, "fixturenames", ())
            if session:
                item.add_marker("session")
            if session or item.get_closest_marker("campaign"):
                item.add_marker(pytest.mark.xdist_group("spark"))
            # The first one waits for the session too.
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores of this machine."""
    from ackq.spark import session

    folder = tmp_path_factory.mktemp("spark")
    with quiet():
        made = session(
            "ackq-tests",
            master="local[2]",
            config={**SMALL, "spark.sql.warehouse.dir": str(folder / "warehouse")},
        )
        made.sparkContext.setLogLevel("OFF")
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def start_on(url: str) -> Iterator[Callable[..., Engine]]:
    """``start_on(checkpoint, queue=..., **options)``: a driver of a query, stopped after the test.

    Without a JVM. An option that is None is not given.
    """
    from ackq.spark.source import AckqDataSource
    from tests.spark.engine import Engine

    with contextlib.ExitStack() as stack:

        def make(checkpoint: Checkpoint, **options: Any) -> Engine:
            schema = options.pop("schema", None)
            given = {"url": url, **options}
            source = AckqDataSource(
                {name.lower(): str(value) for name, value in given.items() if value is not None}
            )
            schema = schema or source.schema()
            engine = Engine(lambda: source.streamReader(schema), checkpoint)
            stack.callback(engine.stop)
            return engine

        yield make


@pytest.fixture
def queue(plain_client: redis.Redis, token: str) -> Iterator[Queue]:
    """A queue of this test's own."""
    with Queue(plain_client, token) as queue:
        yield queue


@pytest.fixture
def batches(tmp_path: Path) -> Batches:
    """A sink, and the checkpoint of its query."""
    from tests.spark.batches import Batches

    return Batches(tmp_path / "checkpoint")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Allow PySpark's own warnings: the version of pandas, and sockets that it leaves open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
