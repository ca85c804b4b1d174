"""The campaign in short: each fault once, and planted faults that the checker must find.

`make campaign` takes its time: every scenario, and every planted fault.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.histories.stories import History
from tests.servers.target import Absent

from . import planting, schedule
from .__main__ import main
from .nemeses import NEMESES
from .planting import Planter, is_caught
from .run import run
from .sabotage import SABOTAGES, Sabotage, suited
from .scenarios import (
    ALL,
    CHILDREN,
    CLOCK,
    CLUSTER,
    FAILOVERS,
    NETWORK,
    PARTITIONS,
    PAUSES,
    RESIZES,
    SCENARIOS,
    Scenario,
)
from .schedule import Strike
from .workloads import WORKLOADS

#: Seconds between two faults.
PACE = 0.3
#: Planted faults that make test looks for; make test-campaign looks for all.
FEW = ("ack without a fence", "a message is stolen", "a lease is ended")


def once(nemeses: Iterable[str]) -> list[Strike]:
    """Return a schedule in which each of these strikes once."""
    return [Strike(PACE * (number + 1), each, number) for number, each in enumerate(nemeses)]


SHORT = {
    "queue": (Scenario("short", "queue, batches", {}), once([*ALL, *CLOCK, *PAUSES])),
    "asyncio": (Scenario("short", "queue, asyncio", {}, proxied=True), once(NETWORK)),
    "topic": (Scenario("short", "topic", {}), once(ALL)),
    "delay": (Scenario("short", "delay queue, partitions", {}), once(ALL)),
    "sentinel": (Scenario("short", "queue, confirmed", {}, on="sentinel"), once(FAILOVERS)),
    "cluster": (Scenario("short", "queue, confirmed", {}, on="cluster"), once(CLUSTER)),
    "partition": (Scenario("short", "queue, confirmed", {}, on="sentinels"), once(PARTITIONS)),
    "shards": (Scenario("short", "sharded queue, resized", {}), once([*RESIZES] * 4)),
    "worker processes": (
        Scenario("short", "worker, processes", {}),
        # Once there are some.
        [replace(each, at=each.at + 4) for each in once([*CHILDREN, *CHILDREN, *CHILDREN])],
    ),
}
#: Those in which no message needs to be redelivered.
SMOOTH = ("partition", "shards", "worker processes")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", SHORT)
def test_no_rule_is_broken_when_each_fault_strikes_once(name: str, tmp_path: Path) -> None:
    scenario, strikes = SHORT[name]
    try:
        verdict = run(scenario, 1, strikes[-1].at + 1, tmp_path / "run", strikes)
    except Absent as reason:
        pytest.skip(str(reason))
    assert verdict.sound, str(verdict)
    assert verdict.pushed > 10
    assert verdict.redelivered > 0 or name in SMOOTH
    assert sum(verdict.faults.values()) >= len(strikes)


@pytest.mark.campaign
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["queue: dead letters", "delay queue: dead letters"])
def test_totals_equal_the_account_after_kills_of_everyone(name: str, tmp_path: Path) -> None:
    verdict = run(SCENARIOS[name], 1, 5, tmp_path / "run")
    assert verdict.sound, str(verdict)
    for kind in ("consumer", "producer"):
        assert verdict.faults[f"kill a {kind}"] > 3
    assert verdict.faults["kill the server"] > 3
    left = History(tmp_path / "run").left or {}
    assert left["totals"]["dead"] == left["reasons"] != {}


def test_these_runs_have_every_fault() -> None:
    struck = {strike.nemesis for _, strikes in SHORT.values() for strike in strikes}
    scheduled = {fault for scenario in SCENARIOS.values() for fault in scenario.faults}
    assert scheduled == struck == {each for each in NEMESES if not each.startswith("sabotage")}


def planted() -> list[object]:
    slow = pytest.mark.campaign
    return [
        pytest.param(each, id=each.name, marks=() if each.name in FEW else slow)
        for each in SABOTAGES
    ]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("sabotage", planted())
def test_a_planted_fault_is_found(sabotage: Sabotage, tmp_path: Path) -> None:
    try:
        assert is_caught(sabotage, 1, tmp_path / "run")
    except Absent as reason:
        pytest.skip(str(reason))


def test_each_run_includes_the_planted_faults_that_were_planted_least_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(sabotage: Sabotage, seed: int, folder: Path) -> bool:
        return sabotage.name != "a message is stolen"

    monkeypatch.setattr(planting, "is_caught", found)
    planter = Planter(1, tmp_path)
    seen: list[str] = []
    kinds = {each.name for each in suited("queue, bulk")}
    for number in range(-(-len(kinds) // planting.EACH)):
        run = tmp_path / str(number)
        run.mkdir()
        (run / "verdict.json").write_text('{"pushed": 7}')
        missed = planter.beside("queue, bulk", run)
        verdict = json.loads((run / "verdict.json").read_text())
        assert verdict["pushed"] == 7
        assert verdict["sabotage"]["missed"] == missed
        seen += verdict["sabotage"]["planted"]
        assert missed == [each for each in verdict["sabotage"]["planted"] if "stolen" in each]
    assert set(seen) == kinds
    assert planter.rest() == ["a message is stolen"]
    kept = json.loads((tmp_path / "sabotage.json").read_text())
    assert (kept["planted"], kept["missed"]) == (len(SABOTAGES), ["a message is stolen"])


@pytest.mark.parametrize("name", WORKLOADS)
def test_there_are_faults_to_plant_beside_every_workload(name: str) -> None:
    assert len(suited(name)) >= 2


def test_a_schedule_follows_from_its_seed(tmp_path: Path) -> None:
    one, again, other = (schedule.draw_schedule(seed, 30, ALL) for seed in (1, 1, 2))
    assert one == again != other
    schedule.store(tmp_path / "schedule.json", one)
    assert schedule.load(tmp_path / "schedule.json") == one
    assert {each.nemesis for each in one} == set(ALL)


def test_a_schedule_is_shrunk_to_the_faults_that_matter() -> None:
    strikes = schedule.draw_schedule(1, 20, ALL)
    needed = {strikes[3], strikes[-2]}
    runs: list[int] = []

    def fails(fewer: list[Strike]) -> bool:
        runs.append(len(fewer))
        return needed <= set(fewer)

    assert set(schedule.shrunk(strikes, fails, attempts=1000)) == needed
    runs.clear()
    assert needed <= set(schedule.shrunk(strikes, fails, attempts=5))
    assert len(runs) == 5


def test_the_command_takes_a_relative_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    into = os.path.relpath(tmp_path)
    arguments = ["--scenario", "queue: kills", "--seed", "1", "--for", "1", "--round", "1"]
    monkeypatch.setattr("sys.argv", ["campaign", *arguments, "--into", into])
    assert not main()
    assert "did not end" not in capsys.readouterr().out
    assert list(tmp_path.glob("*/verdict.json"))
