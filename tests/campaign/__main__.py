"""``python -m tests.campaign``: run scenarios, and print what the checker says of each run."""

import argparse
import itertools
import json
import random
import shlex
import shutil
import sys
import traceback
from pathlib import Path

from tests.histories.log import now

from . import schedule
from .planting import Planter
from .run import run
from .scenarios import SCENARIOS


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
    broken = 0
    for number, name in enumerate(itertools.cycle(names)):
        if now() > until or (options.strikes and number):
            break
        seed = options.seed if len(names) == 1 and not number else draw.randrange(1 << 30)
        broken += _run(name, seed, min(options.round, max(5.0, until - now())), options, planter)
    if not options.scenario:
        broken += bool(planter.rest())
    return bool(broken)


def _run(
    name: str, seed: int, seconds: float, options: argparse.Namespace, planter: Planter
) -> bool:
    folder = options.into / f"{name.replace(' ', '-').replace(':', '')}-{seed}"
    strikes = schedule.load(options.strikes) if options.strikes else None
    begin = now()
    try:
        verdict = run(SCENARIOS[name], seed, seconds, folder, strikes)
        missed = planter.beside(SCENARIOS[name].workload, folder)
    except Exception:
        # A process or a server failed in a way that no fault explains: go on with the others.
        traceback.print_exc()
        print(f"{name}, seed {seed}: did not end; its files: {folder}", flush=True)
        return True
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
