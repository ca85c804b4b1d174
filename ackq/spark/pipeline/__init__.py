"""Spark pipelines: read a queue, topic or delay queue, validate, transform, and write to a sink."""

from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.progress import Progress
from ackq.spark.pipeline.run import Pipeline

__all__ = ["Pipeline", "PipelineConfig", "Progress"]
