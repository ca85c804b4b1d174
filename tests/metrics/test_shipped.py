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
from ackq.ops.attention.model import KINDS
from ackq.ops.chronicle.durations import BUCKETS
from ackq.worker.figures import WAIT_BUCKETS
from tools.alert_rules import name_of, rules

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
PAGE = FOLDER.parent / "metrics.md"
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


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    shown = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return {"series": f"{name}{{{shown}}}", "values": values}


def checks(alert: str, expected: dict[str, list[dict[str, str]]]) -> list[dict[str, Any]]:
    """Return what promtool compares: at some times, the labels of the alerts that fire."""
    (rule,) = (each for each in alerts() if each["alert"] == alert)

    def fired(labels: dict[str, str]) -> dict[str, Any]:
        texts = {
            name: text.replace("{{ $labels.queue }}", labels.get("queue", ""))
            for name, text in rule["annotations"].items()
        }
        return {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": texts}

    return [
        {"alertname": alert, "eval_time": at, "exp_alerts": [*map(fired, labels)]}
        for at, labels in expected.items()
    ]


@needs_promtool
def test_each_alert_is_sent_when_it_should_be_and_the_next_day_too(tmp_path: Path) -> None:
    e, f = {"job": "ackq", "instance": "e"}, {"job": "queues", "instance": "f"}
    a, b = {"queue": "a"}, {"queue": "b"}
    up = series("ackq_up", "1x1700", **e)
    troubles = [up]
    for kind in KINDS:
        # One of two exporters ends, and the other one misses a scrape.
        troubles += [
            series("ackq_trouble", "_x9 1x20", kind=kind, queue="a", instance="e"),
            series("ackq_trouble", "_x9 1x10 _ 1x1500 _x100", kind=kind, queue="a", instance="f"),
            series("ackq_trouble", "_x9 1 _x1600", kind=kind, queue="b", instance="f"),
            series("ackq_trouble", "1x1600", kind=f"{kind}s", queue="c", instance="f"),
        ]
    times = {"8m": [], "10m": [a, b], "14m": [a], "21m": [a], "25h": [a], "26h": []}
    exporters = [
        up | {"values": "1x10"},
        series("up", "1x10 0x1700", **e),
        series("ackq_up", "1x10", **f),
        series("up", "1x10 0x1700", **f),
        series("ackq_up", "1x1700", job="ackq", instance="g"),
        series("up", "1x1700", job="ackq", instance="g"),
        series("up", "0x1700", job="other", instance="h"),
    ]
    down = {"12m": [], "20m": [e, f], "28h": [e, f]}
    gone: dict[str, list[dict[str, str]]] = {"12m": [], "30m": [{}], "28h": [{}]}
    tests = [
        (troubles, {name_of(kind): times for kind in KINDS}),
        (exporters, {"AckqExporterDown": down}),
        ([up | {"values": "1x10"}], {"AckqExporterDown": gone}),
    ]
    for unit, every in (("m", "1m"), ("h", "30m")):  # a day has too many minutes
        cases = [
            {
                "interval": "1m",
                "input_series": inputs,
                "alert_rule_test": [
                    check
                    for alert, moments in alerted.items()
                    for check in checks(alert, moments)
                    if check["eval_time"].endswith(unit)
                ],
            }
            for inputs, alerted in tests
        ]
        rule_files = [str(FOLDER / "alerts.yml")]
        shown = {"rule_files": rule_files, "evaluation_interval": every, "tests": cases}
        (tmp_path / f"{every}.yml").write_text(json.dumps(shown))
    promtool("test", "rules", *tmp_path.glob("*.yml"))


def test_the_rules_are_those_of_the_model() -> None:
    assert (FOLDER / "alerts.yml").read_text() == rules(), "run python -m tools.alert_rules"
    assert [rule["alert"] for rule in alerts()] == [*map(name_of, KINDS), "AckqExporterDown"]
