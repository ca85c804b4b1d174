"""The dashboard and the alert rules load, and name only metrics that exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from ackq.metrics import Collector
from ackq.metrics.handlers import handler_metrics, slot_metrics
from ackq.metrics.pipelines import PipelineFigures, pipeline_metrics
from ackq.ops.chronicle.durations import BUCKETS
from ackq.worker.figures import WAIT_BUCKETS

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
PAGE = FOLDER.parent / "metrics.md"
#: What each alert is sent for, and what not.
CASES = Path(__file__).parent / "alerts.test.yml"
#: What an alert must tell about each of these states.
REQUIRED = {
    "AckqBacklogGrows",
    "AckqOldestTooOld",
    "AckqDeadLetters",
    "AckqNoWorker",
    "AckqLeaseOverdue",
    "AckqGroupStopped",
    "AckqExporterDown",
}
_METRIC = re.compile(r"\backq_\w+")


@pytest.fixture
def metrics(plain_client: redis.Redis) -> dict[str, str]:
    """Every metric that the exporter, the workers and pipelines have, with its type."""
    with Collector(plain_client) as collector:
        families = [*collector.collect()]
    families += [*handler_metrics({}, BUCKETS, WAIT_BUCKETS, 0.0), *slot_metrics(0, 1)]
    families += pipeline_metrics(PipelineFigures("p", 0.0, lag=1))
    found = {}
    for family in families:
        ends = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
        for end in ends.get(family.type, ("",)):
            found[family.name + end] = family.type
    return found


def alerts() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((FOLDER / "alerts.yml").read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    return loaded


def expressions() -> Iterator[str]:
    for rule in alerts():
        yield rule["expr"]
    for panel in panels():
        for target in panel.get("targets", ()):
            yield target["expr"]
    dashboard = json.loads((FOLDER / "grafana.json").read_text())
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_every_expression_names_metrics_that_exist(metrics: dict[str, str]) -> None:
    expected = list(expressions())
    assert len(expected) > 25
    for expression in expected:
        named = _METRIC.findall(expression)
        assert named, expression
        assert set(named) <= metrics.keys(), expression
        for metric in named:
            # A counter or a bucket says nothing before its rate is taken.
            if metrics[metric] in ("counter", "histogram"):
                assert re.search(rf"(rate|increase)\({metric}\b", expression), expression


def test_every_metric_is_documented(metrics: dict[str, str]) -> None:
    page = PAGE.read_text()
    for metric, kind in metrics.items():
        name = re.sub("_(bucket|count|sum)$", "", metric) if kind == "histogram" else metric
        assert f"`{name}" in page, name
    documented = set(re.findall(r"`(ackq_\w+)", page))
    plain = {re.sub("_(bucket|count|sum)$", "", each) for each in metrics} | metrics.keys()
    assert documented <= plain, documented - plain


def test_the_alerts_are_complete() -> None:
    rules = alerts()
    assert {rule["alert"] for rule in rules} >= REQUIRED
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_the_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool: apt install prometheus"
)


def promtool(*args: str | Path, input: str | None = None) -> str:
    done = subprocess.run(["promtool", *args], input=input, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


@needs_promtool
def test_promtool_accepts_the_alerts_and_the_metrics(plain_client: redis.Redis) -> None:
    from ackq.metrics.exposition import render

    promtool("check", "rules", FOLDER / "alerts.yml")
    with Collector(plain_client) as collector:
        text = render(collector.collect(), {}).body.decode()
    assert promtool("check", "metrics", input=text) == ""


@needs_promtool
def test_each_alert_is_sent_when_it_should_be_and_not_before() -> None:
    promtool("test", "rules", CASES)
    cases: dict[str, set[bool]] = {rule["alert"]: set() for rule in alerts()}
    for test in yaml.safe_load(CASES.read_text())["tests"]:
        for case in test["alert_rule_test"]:
            cases[case["alertname"]].add(bool(case["exp_alerts"]))
    assert {name: found for name, found in cases.items() if found != {True, False}} == {}
