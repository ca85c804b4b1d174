"""``python -m tests.campaign``: run scenarios, and print what the checker says of each run."""

import argparse
import json
import random
import shlex
import shutil
import sys
import traceback
from collections import Counter, deque
from pathlib import Path

from tests.histories.log import now
from tests.histories.rules import JUDGED
from tests.servers.target import Absent
from tests.subjects import Subjects

from . import schedule
from .planting import Planter
from .run import run
from .scenarios import SCENARIOS

#: Runs in a row after which a scenario that does not end is not tried again. A server that is not
#: there fails at once, again and again.
FAILURES = 3


def main() -> int:
    """Run until the time is over; return 1 if a rule was broken, or a planted fault missed."""
    options = _options()
    planter = Planter(options.seed, options.into)
    if options.list:
        print("\n".join(SCENARIOS))
        return 0
    if options.sabotage:
        return bool(planter.rest())
    if options.shrink:
        return _shrink(options.shrink)
    until = now() + options.seconds
    draw = random.Random(options.seed)
    # In another order each time, since a short campaign does not get to the end.
    names = options.scenario or draw.sample([*SCENARIOS], len(SCENARIOS))
    broken, seen, failed = 0, Subjects(), Counter[str]()
    turns, left = deque(names), {*SCENARIOS}
    while turns and now() < until:
        name = turns.popleft()
        first = len(names) == 1 and name in left
        seed = options.seed if first else draw.randrange(1 << 30)
        seconds = min(options.round, max(5.0, until - now()))
        left.discard(name)
        try:
            broken += _run(name, seed, seconds, options, planter, seen)
            failed[name] = 0
        except Exception as error:
            # A process or a server failed in a way that no fault explains: go on with the others.
            traceback.print_exc()
            print(f"{name}, seed {seed}: did not end", flush=True)
            broken += 1
            failed[name] += FAILURES if isinstance(error, Absent) else 1
        if options.strikes:
            break
        if failed[name] < FAILURES:
            turns.append(name)
    if not options.scenario:
        broken += bool(planter.rest())
    print(f"the rules saw: {seen}")
    if not left and (missing := seen.missing(JUDGED)):
        print(f"rules without a subject: {', '.join(missing)}")
        broken += 1
    return bool(broken)


def _run(
    name: str,
    seed: int,
    seconds: float,
    options: argparse.Namespace,
    planter: Planter,
    seen: Subjects,
) -> bool:
    folder = options.into / f"{name.replace(' ', '-').replace(':', '')}-{seed}"
    strikes = schedule.load(options.strikes) if options.strikes else None
    begin = now()
    verdict = run(SCENARIOS[name], seed, seconds, folder, strikes)
    seen.update(verdict.subjects)
    missed = planter.beside(SCENARIOS[name].workload, folder)
    print(f"{name}, seed {seed}, {now() - begin:.0f} s: {verdict}", flush=True)
    if missed:
        print(f"  not valid: the checker missed {', '.join(missed)}", flush=True)
    if not verdict.sound:
        again = [
            "python",
            "-m",
            "tests.campaign",
            "--scenario",
            name,
            "--seed",
            str(seed),
            "--for",
            f"{seconds:g}",
        ]
        shrink = ["python", "-m", "tests.campaign", "--shrink", str(folder)]
        print(f"  repeat it with: {shlex.join(again)}", flush=True)
        print(f"  find the faults that matter: {shlex.join(shrink)}", flush=True)
    elif not options.keep and not missed:
        shutil.rmtree(folder / "history")
        shutil.rmtree(folder / "server", ignore_errors=True)
    return not verdict.sound or bool(missed)


def _shrink(folder: Path) -> int:
    """Find fewer faults with which a stored run still breaks a rule; return 0 if there are any."""
    settings = json.loads((folder / "settings.json").read_text())
    scenario, attempt = SCENARIOS[settings["scenario"]], folder / "attempt"

    def fails(strikes: list[schedule.Strike]) -> bool:
        verdict = run(scenario, settings["seed"], settings["seconds"], attempt, strikes)
        print(f"{len(strikes)} faults: {'sound' if verdict.sound else 'broken'}", flush=True)
        return not verdict.sound

    strikes = schedule.load(folder / "schedule.json")
    fewer = schedule.shrunk(strikes, fails)
    schedule.store(folder / "shrunk.json", fewer)
    again = [
        "python",
        "-m",
        "tests.campaign",
        "--scenario",
        scenario.name,
        "--seed",
        str(settings["seed"]),
        "--for",
        f"{settings['seconds']:g}",
        "--strikes",
        str(folder / "shrunk.json"),
    ]
    print(f"{len(fewer)} of {len(strikes)} faults are left: {shlex.join(again)}")
    return int(len(fewer) == len(strikes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.campaign", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    parser.add_argument(
        "--sabotage",
        action="store_true",
        help="plant every fault that the checker must find, and end",
    )
    parser.add_argument(
        "--shrink",
        type=Path,
        metavar="FOLDER",
        help="run this run again with ever fewer faults, and end",
    )
    parser.add_argument(
        "--scenario",
        action="append",
        choices=SCENARIOS,
        metavar="NAME",
        help="run this one; may be repeated. Default: all, shuffled",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(1 << 30),
        help="the faults follow from it. Defaults to a random one",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=float,
        default=900.0,
        metavar="SECONDS",
        help="how long to go on. Defaults to 900",
    )
    parser.add_argument(
        "--hours", type=lambda hours: float(hours) * 3600, dest="seconds", help="the same in hours"
    )
    parser.add_argument(
        "--round",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="length of one run. Defaults to 30",
    )
    parser.add_argument(
        "--strikes",
        type=Path,
        metavar="FILE",
        help="faults of a stored schedule.json, not the seed's",
    )
    # A server's include is relative to its own folder, so the path is absolute.
    parser.add_argument(
        "--into",
        type=lambda folder: Path(folder).resolve(),
        default=".campaign",
        metavar="FOLDER",
        help="where runs leave their files. Defaults to .campaign",
    )
    parser.add_argument("--keep", action="store_true", help="keep the histories of sound runs too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
