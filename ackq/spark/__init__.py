"""ackq for Apache Spark: the format ``ackq``, a session that finds it, and pipelines.

``import ackq`` does not import Spark; this package needs the extra ``spark``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackq.late_names import late_names

if TYPE_CHECKING:
    from ackq.spark.launch import session
    from ackq.spark.pipeline.run import Pipeline
else:
    # The pipeline imports Spark. If Spark is missing, `session` raises a clearer error.
    __getattr__, __dir__ = late_names(__name__, {"launch": "session", "pipeline.run": "Pipeline"})

__all__ = ["Pipeline", "session"]
