"""Report on many queues: dead letters with reason and time, and messages in flight."""

from ackq.ops.report.run import report
from ackq.ops.report.summary import Summary

__all__ = ["Summary", "report"]
