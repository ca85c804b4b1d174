"""The page on mutants shows the stored results, and nothing else."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from . import report
from .survivors import FILE, reason_of

EQUIVALENT = "ackq/core/encode.py: f: zip(a, b, strict=True) -> zip(a, b, strict=False)"
STORED: dict[str, Any] = {
    "commit": "c0ffee",
    "first tried on": ["cafe", "face"],
    "seed": 1,
    "python": "3.11.7",
    "redis-py": "8.1.0",
    "mutants": {"core": 1381, "delay": 2035},
    "results": [
        {
            "package": "core",
            "mutant": "ackq/core/encode.py: f: a -> b",
            "by": "test",
            "at first": True,
        },
        {
            "package": "core",
            "mutant": "ackq/core/encode.py: f: a -> c",
            "by": "test",
            "at first": False,
        },
        {
            "package": "core",
            "mutant": "ackq/core/encode.py: f: a -> d",
            "by": None,
            "at first": False,
        },
        {"package": "core", "mutant": "ackq/core/x.py: f: a", "by": None, "at first": False},
        {"package": "core", "mutant": EQUIVALENT, "by": None, "at first": False},
    ],
}


def test_the_page_is_made_from_the_stored_results() -> None:
    for stored in report.RESULTS.glob("*.json"):
        assert stored.with_suffix(".md").read_text() == report.page(
            json.loads(stored.read_text())
        ), "run python -m tests.mutation.report"


def test_a_score_leaves_out_equivalent_mutants_and_tells_before_from_after() -> None:
    text = report.page(STORED)
    assert "first tried on commits cafe, face" in text
    assert "| core | 1,381 | 5 | 1 | 1 | 25 % | 5 % to 70 % | 2 | 50 % |" in text
    assert "- `ackq/core/encode.py: f: a -> d`\n" in text
    assert f"- `{EQUIVALENT}`: {reason_of(EQUIVALENT)}\n" in text
    assert "delay" not in text
    assert (
        "redis-py 8.1.0. Since then, the modules of 1 of them have been renamed or removed." in text
    )
    assert "x.py" not in text


def test_reasons_and_most_of_a_sample_are_of_modules_that_exist() -> None:
    survivors = tomllib.loads(FILE.read_text())
    given = [mutant for kind in survivors.values() for mutant in kind]
    named = [mutant for mutant in given if "..." not in mutant.partition(":")[0]]
    assert len(named) > 20
    assert list(filter(report.is_gone, named)) == []
    for path in report.RESULTS.glob("*.json"):
        mutants = [each["mutant"] for each in json.loads(path.read_text())["results"]]
        gone = sum(map(report.is_gone, mutants))
        assert 5 * gone < len(mutants), f"{path.name} is old: draw a sample with another seed"


def test_no_path_of_a_machine_is_stored(tmp_path: Path) -> None:
    test = f"tests/core/test_x.py::test_f[{tmp_path}/x-sync]"
    results = [{**STORED["results"][0], "by": test}, STORED["results"][2]]
    about = {key: each for key, each in STORED.items() if key != "results"}
    report.write(tmp_path / "results.json", about, results)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert [each["by"] for each in stored["results"]] == ["tests/core/test_x.py::test_f", None]
    for path in report.RESULTS.iterdir():
        assert not re.search(r"[^\w.](/\w+){2}", path.read_text()), path


def test_a_sample_leaves_out_what_earlier_ones_drew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.write(tmp_path / "seed-1.json", {**STORED, "results": []}, STORED["results"])
    assert report.drawn_before(1) == set()
    assert report.drawn_before(2) == {each["mutant"] for each in STORED["results"]}


def test_the_interval_is_wilsons() -> None:
    assert report.interval(45, 50) == pytest.approx((0.7864, 0.9565), abs=1e-4)
    assert report.interval(50, 50)[1] == 1.0


def test_a_reason_holds_for_a_mutant_and_no_other() -> None:
    assert reason_of(EQUIVALENT)
    assert reason_of(EQUIVALENT.replace("=False", "=False, c")) is not None
    assert reason_of("ackq/core/encode.py: f: a -> b") is None
