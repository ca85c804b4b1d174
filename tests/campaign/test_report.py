"""The page of the campaign shows the stored results, and nothing else."""

import json
import subprocess
from pathlib import Path

import pytest

from . import report

RUN = {
    "scenario": "queue: kills",
    "seed": 1,
    "seconds": 30,
    "server": "redis 7.0.15",
    "pushed": 3000,
    "took": 30.0,
    "redelivered": 9,
    "acked": 2000,
    "refused": 5,
    "faults": {"kill a consumer": 7},
}
LOSSY = RUN | {"scenario": "queue: crashes without persistence", "lost_as_expected": 4}


def test_the_page_is_made_from_the_stored_results() -> None:
    text = report.PAGE.read_text()
    assert report.page(text, report.RESULTS.glob("*.json")) == text, (
        "run python -m tests.campaign.report"
    )


def test_the_runs_of_a_folder_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    settings = RUN | dict.fromkeys(report.ENVIRONMENT, "x")
    for number, scenario in enumerate(["queue: kills", "sabotage: a message is stolen"]):
        run = tmp_path / "runs" / str(number)
        run.mkdir(parents=True)
        (run / "settings.json").write_text(json.dumps(settings | {"scenario": scenario}))
        (run / "verdict.json").write_text(json.dumps({"pushed": 3, "violations": {}}))
    stored = json.loads(report.collect(tmp_path / "runs").read_text())
    (only,) = stored["runs"]
    assert (only["scenario"], only["pushed"], only["seed"]) == ("queue: kills", 3, 1)


def test_stored_runs_are_added_up(tmp_path: Path) -> None:
    stored = tmp_path / "a.json"
    about = dict.fromkeys(report.ENVIRONMENT, "x")
    runs = [RUN, RUN | {"violations": {"lost": 1}}, LOSSY]
    stored.write_text(json.dumps({"environment": about, "sabotage": None, "runs": runs}))
    verdict, tables = "old".join(report.VERDICT), "old".join(report.TABLES)
    text = report.page(f"before\n{verdict}\n{tables}\nafter\n", [stored])
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    row = "| queue: kills | 2 | 14 | 0.2 | 6,000 | 100 | 18 | 10 | 1 | see the runs |"
    assert f"{row} 0 | 0 of 4,000 | 0 | 1 |" in text
    assert "| queue: crashes without persistence | 7 | 3,000 | 4 |" in text
    assert "1 of 6,000 messages were lost" in text
    assert "| processes killed | 21 | 10,000 |" in text
    assert "old" not in text


def test_a_run_whose_planted_fault_was_missed_counts_for_nothing(tmp_path: Path) -> None:
    stored = tmp_path / "a.json"
    about = dict.fromkeys(report.ENVIRONMENT, "x")
    planted = {"planted": ["a message is stolen", "a message is forged"], "missed": []}
    escaped = planted | {"missed": ["a message is forged"]}
    runs = [RUN | {"sabotage": planted}, RUN | {"sabotage": escaped}]
    stored.write_text(json.dumps({"environment": about, "sabotage": None, "runs": runs}))
    text = report.page("".join(report.VERDICT + report.TABLES), [stored])
    assert "**1 runs, 3,000 answered pushes" in text
    assert "missed a planted fault there: 1." in text
    assert "| 3 of 4 in the runs |" in text


def test_the_checker_of_every_stored_run_was_put_to_the_test() -> None:
    for path in report.RESULTS.glob("*.json"):
        stored = json.loads(path.read_text())
        runs = [run.get("sabotage") for run in stored["runs"]]
        commit = stored["environment"]["commit"]
        passes = [json.loads(each.read_text()) for each in report.CHECKERS.glob("*.json")]
        assert stored["sabotage"] or all(runs) or any(commit in each["runs"] for each in passes)


def test_runs_are_covered_by_planted_faults_of_the_same_checker() -> None:
    for path in report.CHECKERS.glob("*.json"):
        planted = json.loads(path.read_text())
        for commit in (planted["commit"], *planted["runs"]):
            asked = ["git", "rev-parse", f"{commit}:tests/campaign/checker"]
            found = subprocess.run(asked, capture_output=True, text=True, check=False)
            if found.returncode:
                pytest.skip("not a full clone of the repository")
            assert found.stdout.startswith(planted["checker"])
