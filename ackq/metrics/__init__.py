"""Metrics of queues for Prometheus; needs ``pip install 'ackq[metrics]'``."""

from ackq.metrics.collector import Collector

__all__ = ["Collector"]
