"""Count the rows of a batch while something else reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Observation
from pyspark.sql import functions as F

from ackq.spark.pipeline.plan import REASON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Milliseconds that Spark's reports of a finished job may take to arrive.
_PATIENCE_MS = 10_000


class CountedRows:
    """Rows that Spark counts as the first action reads them.

    The action may read fewer rows than there are: a LIMIT ends early, and Spark leaves out whole
    parts of a query that cannot change its result. So compare the number with a known one.
    """

    def __init__(self, checked: DataFrame) -> None:
        self._observation: Any = Observation()
        self.rows = checked.observe(
            self._observation,
            F.count(F.lit(1)).alias("rows"),
            F.count(REASON).alias("rejected"),
        )

    def counts(self) -> tuple[int, int] | None:
        """Return how many rows were read and how many of them are rejected; None: not counted."""
        context: Any = self.rows.sparkSession.sparkContext
        try:
            context._jsc.sc().listenerBus().waitUntilEmpty(_PATIENCE_MS)
            # Otherwise `get` would wait for ever.
            if not self._observation._jo.future().isCompleted():
                return None
            observed = self._observation.get
        except Py4JJavaError:  # Spark is too busy to report, or the action failed
            return None
        return observed["rows"], observed["rejected"]
