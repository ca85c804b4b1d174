"""ackq for Apache Spark: the format ``ackq``, a session that finds it, and pipelines.

``import ackq`` does not import Spark; this package needs the extra ``spark``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackq.spark.launch import session

if TYPE_CHECKING:
    from ackq.spark.pipeline import Pipeline

__all__ = ["Pipeline", "session"]


def __getattr__(name: str) -> Any:
    # The pipeline imports Spark. If Spark is missing, `session` raises a clearer error.
    if name != "Pipeline":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ackq.spark.pipeline import Pipeline

    return Pipeline
