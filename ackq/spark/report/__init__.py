"""A report on many queues: what died, why and when, and what is in flight."""

from ackq.spark.report.run import report
from ackq.spark.report.summary import Summary

__all__ = ["Summary", "report"]
