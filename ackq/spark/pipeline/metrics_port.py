"""A port with the metrics of `ackq pipeline run`, for Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from ackq.core.io.http import Answer, HttpServer
from ackq.errors import AckqError
from ackq.spark.pipeline.progress import Progress

#: Seconds that a connection may last.
MAX_CONNECTION = 60.0


class MetricsPort:
    """Answers ``/metrics`` and, while the pipeline runs, ``/healthz``."""

    def __init__(self, name: str, listen: tuple[str, int]) -> None:
        """Listen.

        Args:
            name: the name of the pipeline.
            listen: the address and the port; 0 picks a free one.

        Raises:
            AckqError: prometheus_client is not installed.
            ConfigurationError: the address or port cannot be used.
        """
        try:
            from ackq.metrics.pipelines import PipelineFigures
        except ModuleNotFoundError:
            raise AckqError(
                "the metrics need prometheus_client: pip install 'ackq[metrics]'"
            ) from None
        self._run = PipelineFigures(name, time.time())
        self._batches = 0
        self._lock = threading.Lock()
        self._server = HttpServer(listen, self._answer, MAX_CONNECTION, "metrics port")
        self._server.start()

    @property
    def address(self) -> tuple[str, int]:
        """The address and port that it listens on."""
        return self._server.address

    def close(self) -> None:
        """Stop listening."""
        self._server.stop()

    def show(self, progress: Progress) -> None:
        """Count a new batch. Call it with every progress."""
        with self._lock:
            self._run.lag, self._run.late = progress.lag, progress.late
            if progress.batches > self._batches and (batch := progress.batch) is not None:
                self._batches = progress.batches
                self._run.add(batch.rows, batch.reasons, batch.seconds)

    def _answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        from ackq.metrics.exposition import render
        from ackq.metrics.pipelines import pipeline_metrics

        where = urlsplit(path).path
        if where == "/metrics":
            with self._lock:
                metrics = list(pipeline_metrics(self._run))
            return render(metrics, headers)
        if where in ("/", "/healthz"):
            return Answer.of_json(200, {"healthy": True})
        return Answer.of_json(404, {"paths": ["/metrics", "/healthz"]})
