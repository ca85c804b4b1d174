"""One run: a scenario, for some seconds, with the faults of one seed, and what the checker says."""

import contextlib
import dataclasses
import hashlib
import json
import platform
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import redis

from ackq import scripts
from tests import histories
from tests.histories.log import FileLog, Log, now
from tests.products.loops import Consumer

from . import schedule
from .crew import Crew
from .deployments import Deployment, deploy
from .nemeses import NEMESES, Stage
from .sabotage import Slip
from .scenarios import Scenario
from .schedule import Strike
from .site import Site
from .workloads import WORKLOADS
from .workloads.rig import Rig, run_blocking

T = TypeVar("T")

_ROOT = Path(__file__).parents[2]
#: Seconds for which a consumer may ask in vain, after the last fault, although messages are stored.
DRAINED_WITHIN = 15
#: Seconds after which a run is given up: nothing that a busy machine explains.
GIVEN_UP = 600


def run(
    scenario: Scenario,
    seed: int,
    seconds: float,
    folder: Path,
    strikes: list[Strike] | None = None,
    planted: Path | None = None,
    slip: Slip | None = None,
    drained_within: float = DRAINED_WITHIN,
) -> histories.Verdict:
    """Run a scenario; leave its settings, schedule, history and verdict in ``folder``.

    Args:
        scenario: what to run.
        seed: of the faults, and of what the processes draw.
        seconds: how long faults strike.
        folder: where to write; an earlier run is deleted.
        strikes: the faults, instead of those that follow from the seed.
        planted: a folder of scripts to use instead of ackq's own: sabotage.
        slip: a mistake in the library that the processes make: sabotage.
        drained_within: seconds for which a consumer may ask in vain, after the last fault.
    """
    begin = now()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "history").mkdir(parents=True)
    if strikes is None:
        strikes = schedule.draw_schedule(seed, seconds, scenario.faults)
    schedule.store(folder / "schedule.json", strikes)
    workload = WORKLOADS[scenario.workload]
    with deploy(scenario, folder) as deployment:
        settings = {
            **workload.rules,
            "drain_within": drained_within,
            "scenario": scenario.name,
            "seed": seed,
            "seconds": seconds,
            **environment(),
            "server": deployment.release,
        }
        _store(folder / "settings.json", settings)
        site = dataclasses.replace(deployment.site, scripts=planted, slip=slip)
        rig = workload.rig(deployment.site, dataclasses.replace(workload, asynchronous=False))
        _reach(lambda: run_blocking(rig.prepare()))
        log = FileLog(folder / "history" / "nemeses.jsonl")
        try:
            _strike(deployment, site, scenario, seed, seconds, folder, strikes, log)
            left = drain(rig, FileLog(folder / "history" / "drain.jsonl"), drained_within)
            log.write(do="left", **left)
        finally:
            run_blocking(rig.close())
    verdict = histories.check(folder)
    _store(folder / "verdict.json", verdict.as_json() | {"took": round(now() - begin, 1)})
    return verdict


def _strike(
    deployment: Deployment,
    site: Site,
    scenario: Scenario,
    seed: int,
    seconds: float,
    folder: Path,
    strikes: list[Strike],
    log: Log,
) -> None:
    """Let producers and consumers work while faults strike; then let them end."""
    crew = Crew(site, WORKLOADS[scenario.workload], folder, seed, scenario.sizes)
    with contextlib.closing(crew):
        stage = Stage(deployment, crew, log)
        begin = now()
        for strike in strikes:
            stage.wait_until(begin + strike.at)
            NEMESES[strike.nemesis](stage, strike.draw)
        stage.wait_until(begin + seconds)
        stage.settle()
        crew.finish("producer")
        crew.finish("consumer")


def drain(rig: Rig, log: Log, within: float) -> dict[str, Any]:
    """Take what is left when all others have ended; return what is stored then.

    Nothing disturbs this consumer.
    """
    consumer = Consumer(rig, rig.habits, log, "drain", random.Random(0))
    stored = _reach(lambda: run_blocking(consumer.drain(within)))
    return {"messages": stored, **_reach(lambda: run_blocking(rig.left()))}


def _reach(ask: Callable[[], T]) -> T:
    """Return what ``ask`` returns. On a busy machine a Sentinel misses its primary for a moment."""
    until = now() + GIVEN_UP
    while True:
        try:
            return ask()
        except redis.ConnectionError:
            if now() > until:
                raise
            time.sleep(0.1)


def environment() -> dict[str, str]:
    """Return the versions and the commit that a run shows something about."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--abbrev=12", "--dirty"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    text = b"".join(scripts.load(name).text for name in scripts.names())
    return {
        "commit": commit,
        "scripts": hashlib.sha256(text).hexdigest()[:12],
        "ackq": version("ackq"),
        "redis-py": version("redis"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _store(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
