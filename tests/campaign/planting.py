"""Plants faults, and asks the checker whether it finds them: beside each run, and all of them."""

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import redis

from ackq import scripts
from tests.histories import Verdict

from .nemeses.stage import NEMESES, Stage
from .run import environment, run
from .sabotage import SABOTAGES, Sabotage, Slip, suited
from .scenarios import NETWORK, Scenario
from .schedule import Strike

#: Faults that are planted beside each run.
EACH = 3
#: Seconds of a run; if nothing was found, twice as long and so on.
SECONDS = (1.5, 3.0, 6.0, 12.0)
#: Seconds between two strikes of a saboteur.
EVERY = 0.1


class Planter:
    """Plants the faults of a campaign, of each workload those that were planted least often."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self._folder = folder
        self._times: Counter[Sabotage] = Counter()
        self._missed: set[str] = set()

    def beside(self, workload: str, folder: Path) -> list[str]:
        """Add to the verdict of a run which faults were planted; return those not found."""
        chosen = sorted(suited(workload), key=lambda each: self._times[each])[:EACH]
        missed = [each.name for each in chosen if not self._is_caught(each)]
        path = folder / "verdict.json"
        planted = {"planted": [each.name for each in chosen], "missed": missed}
        verdict = json.loads(path.read_text()) | {"sabotage": planted}
        path.write_text(json.dumps(verdict, indent=1) + "\n")
        return missed

    def rest(self) -> list[str]:
        """Plant what was not planted yet; store and return which of all were not found."""
        before = {time_.name for time_ in self._times}
        for each in SABOTAGES:
            if each.name not in before:
                print(f"{'found ' if self._is_caught(each) else 'MISSED'} {each.name}", flush=True)
        missed = sorted(self._missed)
        kept = {"planted": len(SABOTAGES), "missed": missed, "seed": self._seed, **environment()}
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "sabotage.json").write_text(json.dumps(kept, indent=1) + "\n")
        return missed

    def _is_caught(self, sabotage: Sabotage) -> bool:
        number = self._times.total()
        self._times[sabotage] += 1
        found = is_caught(sabotage, self._seed + number, self._folder / f"sabotage-{number}")
        self._missed |= set() if found else {sabotage.name}
        return found


def is_caught(sabotage: Sabotage, seed: int, folder: Path) -> bool:
    """Run a small load with a planted fault; return whether the checker finds it."""
    for seconds in SECONDS:  # a busy machine may leave the processes no time to be harmed
        verdict = _perform(sabotage, seed, seconds, folder)
        if any(verdict.violations[rule] for rule in sabotage.rules):
            return True
    return False


def _perform(sabotage: Sabotage, seed: int, seconds: float, folder: Path) -> Verdict:
    scenario = Scenario(
        f"sabotage: {sabotage.name}",
        sabotage.workload,
        {},
        proxied=any(each in NETWORK for each in sabotage.beside),
        sizes={"consumer": 2, "producer": 1},
    )
    planted, slip, kinds = None, None, sabotage.beside
    if isinstance(sabotage.how, Slip):
        slip = sabotage.how
    elif callable(sabotage.how):
        saboteur = sabotage.how

        def strike(stage: Stage, draw: random.Random) -> None:
            with redis.Redis(port=stage.on.server.port) as client:
                saboteur(client, draw)

        NEMESES[scenario.name] = strike
        kinds = (*kinds, scenario.name)
    else:
        planted = folder.with_name(f"{folder.name}.lua")
        shutil.rmtree(planted, ignore_errors=True)
        shutil.copytree(scripts.directory(), planted)
        for edit in sabotage.how:
            edit.make(planted)
    times = range(1, round(seconds / EVERY)) if kinds else ()
    strikes = [Strike(EVERY * n, kind, seed + n) for n in times for kind in kinds]
    return run(scenario, seed, seconds, folder, strikes, planted, slip, drained_within=4)
