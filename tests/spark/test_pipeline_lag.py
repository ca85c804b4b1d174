"""The lag of a pipeline, counted once a second and unknown while Redis is away."""

from types import SimpleNamespace
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.spark import launch
from ackq.spark.connection import retry
from ackq.spark.options import Reading
from ackq.spark.pipeline import Pipeline, run
from ackq.spark.pipeline.status import Lag


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


def test_a_call_is_repeated_after_longer_and_longer_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    answers: list[Any] = [redis.ConnectionError("away")] * 7 + [5]

    def call() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    monkeypatch.setattr("time.sleep", pauses.append)
    assert retry(call, 60.0) == 5
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    answers = [redis.AuthenticationError("wrong password")]
    with pytest.raises(redis.AuthenticationError):
        retry(call, 60.0)
    assert len(pauses) == 7


class Started(Exception):
    """Spark would have been started."""


@pytest.mark.parametrize(
    ("once", "most", "chosen", "is_short"),
    [
        (True, 1, "", True),
        (False, 1, "", False),
        (True, 0, "", False),
        (True, 1, "-XX:-TieredCompilation", False),
    ],
)
def test_a_short_run_starts_java_with_one_compiler_unless_the_user_chose(
    queue: Queue,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    once: bool,
    most: int,
    chosen: str,
    is_short: bool,
) -> None:
    options: list[str] = []

    def start(name: str, config: dict[str, str]) -> None:
        options.append(config["spark.driver.defaultJavaOptions"])
        raise Started

    monkeypatch.setattr(launch, "session", start)
    monkeypatch.setattr(launch, "find_java", lambda: "/opt/java")
    monkeypatch.setattr(launch, "without_module", lambda home: home)
    monkeypatch.setattr(run, "FEW_MESSAGES", most)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", chosen)
    queue.push({"a": "x"})
    source = {"queue": queue.name, "options": {"url": url}}
    sections = {"source": source, "schema": {"ddl": "a STRING"}, "sink": {"path": "out"}}
    with pytest.raises(Started):
        Pipeline({"name": "p", "checkpoint": "state", **sections}).run(once=once)
    assert (launch.SHORT in options[0]) is is_short


def test_a_session_whose_java_is_gone_ends_without_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped: list[Any] = []

    def stop() -> None:
        stopped.append(True)
        raise ConnectionRefusedError

    spark: Any = SimpleNamespace(
        stop=stop, sparkContext=SimpleNamespace(setLogLevel=lambda level: None)
    )
    monkeypatch.setattr(launch, "session", lambda name, config: spark)
    monkeypatch.setattr(launch, "find_java", lambda: "/opt/java")
    monkeypatch.setattr(launch, "without_module", lambda home: home)
    monkeypatch.setenv("JAVA_HOME", "")
    with launch.quiet_session("films", {}, None) as made:
        assert made is spark
    assert stopped == [True]
