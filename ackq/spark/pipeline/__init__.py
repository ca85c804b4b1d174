"""Spark pipelines: read a queue, topic or delay queue, validate, transform, and write to a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackq.late_names import late_names

if TYPE_CHECKING:
    from ackq.spark.pipeline.config import PipelineConfig
    from ackq.spark.pipeline.progress import Progress
    from ackq.spark.pipeline.run import Pipeline
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "config": "PipelineConfig",
            "progress": "Progress",
            "run": "Pipeline",
        },
    )

__all__ = ["Pipeline", "PipelineConfig", "Progress"]
