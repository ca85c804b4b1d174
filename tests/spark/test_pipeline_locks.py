"""The metrics of a pipeline change under a lock, as those in tests/test_locks.py do."""

from collections.abc import Callable
from typing import Any

import pytest

from ackq.spark.pipeline.metrics_port import MetricsPort
from ackq.spark.pipeline.progress import Progress
from tests.locks import assert_waits


@pytest.mark.parametrize(
    "call",
    [
        lambda port: port.show(Progress("films")),
        lambda port: port._answer("/metrics", {}),
    ],
)
def test_a_call_waits_for_the_lock(call: Callable[[Any], Any]) -> None:
    port: Any = MetricsPort.__new__(MetricsPort)  # it listens on no port
    port._run = None
    assert_waits(port, call)
