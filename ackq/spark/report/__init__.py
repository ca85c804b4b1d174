"""Report on many queues: dead letters with reason and time, and messages in flight."""

from ackq.spark.report.run import report
from ackq.spark.report.summary import Summary

__all__ = ["Summary", "report"]
