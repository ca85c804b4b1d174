"""A pipeline on Spark: from a queue or a topic through validation and a transform to a sink."""

from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.progress import Progress
from ackq.spark.pipeline.run import Pipeline

__all__ = ["Pipeline", "PipelineConfig", "Progress"]
