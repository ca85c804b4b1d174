"""The lag of a pipeline, counted once a second and unknown while Redis is away."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from ackq.spark.options import Reading
from ackq.spark.pipeline.lag import Lag


@pytest.mark.parametrize("error", [redis.ConnectionError("away"), OSError("no route")])
def test_a_lag_that_cannot_be_counted_is_unknown(
    url: str, token: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    now = 100.0
    counts: list[Any] = [7, 9, error, 4]

    def count(lag: Lag, reached: object) -> int:
        found = counts.pop(0)
        if isinstance(found, Exception):
            raise found
        return int(found)

    monkeypatch.setattr(Lag, "_in_queues", count)
    monkeypatch.setattr("time.monotonic", lambda: now)
    lag = Lag(Reading.of({"queue": token, "url": url}))
    assert (lag.count(None), lag.count(None, 2), lag.count(None, 8)) == (7, 5, 0)
    assert lag.count(None, at_once=True) == 9
    now += 0.99
    assert lag.count(None) == 9
    now += 0.02
    assert lag.count(None) is lag.count(None) is None
    now += 1.0
    assert lag.count(None) == 4
    lag.close()
