"""``python -m tests.mutation``: try mutants that a seed draws, and store the results.

Continue an ended run with the same command. ``--again`` tries the survivors once more, after new
tests have been written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from multiprocessing.pool import ThreadPool
from typing import Any, Literal

from tests.campaign.run import environment

from . import mutants as loud
from . import quiet, scripts
from .mutant import Mutant, draw
from .mutants import PACKAGES
from .places import WORK
from .recording import TESTS, recorded, run_plan
from .report import RESULTS, drawn_before, write
from .survivors import reason_of
from .twins import Twin, twin_of

#: The tests of the defaults of arguments.
DEFAULTS = "tests/core/test_defaults.py::"
#: The tests of the times that the documentation names.
TIMES = "tests/test_documented_times.py::"
#: Tests that last longer than this are not run, nor more tests than fit into the budget.
LONGEST_TEST = 3.0
#: What makes the mutants that an option names, and their packages or kinds.
MUTANTS = {
    "seed": (loud.mutants, PACKAGES),
    "quiet": (quiet.mutants, quiet.KINDS),
    "lua": (scripts.mutants, scripts.KINDS),
}


def main() -> int:
    """Draw, try, store, report."""
    options = _options()
    print("making the mutants ...", flush=True)
    made, groups = MUTANTS[options.of]
    mutants = made()
    if options.within:
        folders = tuple(f"{each.rstrip('/')}/" for each in options.within)
        mutants = [each for each in mutants if each.function.startswith(folders)]
    drawn = draw(mutants, options.seed, options.size, options.package or groups)
    results = _results()
    wanted = [each for each in drawn if _is_open(each, results, options.again)]
    if wanted:
        of: Literal["python", "lua"] = "lua" if options.of == "lua" else "python"
        tests = recorded(options.tests or (), options.jobs, of=of)
        plan = [_planned(each, tests, options.budget) for each in wanted]
        about = {"seed": options.seed, "commit": environment()["commit"]}
        with ThreadPool(options.jobs) as pool:
            pool.starmap(_try, [(plan[at :: options.jobs], about) for at in range(options.jobs)])
    drawn = draw(mutants, options.seed, options.size, groups)
    _store(mutants, drawn, groups, options)
    return 0


def _try(plan: list[dict[str, Any]], about: dict[str, Any]) -> None:
    run_plan(plan, about, WORK / "results.jsonl")


def _results() -> dict[str, list[dict[str, Any]]]:
    """Return all results so far by mutant, oldest first."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    path = WORK / "results.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        result = json.loads(line)
        found[result["key"]].append(result)
    return found


def _is_open(mutant: Mutant, results: dict[str, list[dict[str, Any]]], again: bool) -> bool:
    known = results.get(mutant.key)
    if not known:
        return True
    return again and known[-1]["by"] is None and reason_of(mutant.key) is None


def _planned(mutant: Mutant, tests: dict[str, dict[str, Any]], budget: float) -> dict[str, Any]:
    """Choose tests that run the changed statement, or the changed block of a script.

    Half of the time is for those that run the fewest statements, the rest for the quickest of each
    file in turn.
    """
    by_file: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    twin = twin_of(mutant.function, mutant.code, mutant.place)
    variants: list[Mutant | Twin] = [mutant, twin] if twin else [mutant]
    changed = {place for variant in variants for place in variant.place.split(", ")}
    running = {name: test for name, test in tests.items() if not changed.isdisjoint(test["places"])}
    if not running:  # a default value, or code that has changed since the tests were recorded
        functions = tuple(f"{variant.function}+" for variant in variants)
        running = {
            name: test
            for name, test in tests.items()
            if any(place.startswith(functions) for place in test["places"])
        }
    # These tests look at a default value, or at a constant, without a call.
    if looks := DEFAULTS if mutant.place.endswith("+?") else TIMES * (mutant.package == "timeout"):
        running |= {name: test for name, test in tests.items() if name.startswith(looks)}
    quick = {name: test for name, test in running.items() if test["seconds"] <= LONGEST_TEST}
    for name, test in quick.items():
        by_file[name.partition("::")[0]].append((test["seconds"], name))
    turns = sorted(
        (turn, seconds, name)
        for those in by_file.values()
        for turn, (seconds, name) in enumerate(sorted(those))
    )
    chosen = _within(budget / 2, sorted(quick, key=lambda name: len(quick[name]["places"])), quick)
    chosen |= _within(budget / 2, [name for *_, name in turns if name not in chosen], quick)
    total = sum(chosen.values())
    return {
        "key": mutant.key,
        "code": {variant.function: variant.code for variant in variants},
        "sound": {mutant.function: ""} if mutant.function.startswith("lua/") else {},
        "tests": list(chosen),
        "limit": 60 + 10 * total,
    }


def _within(
    budget: float, names: Iterable[str], tests: dict[str, dict[str, Any]]
) -> dict[str, float]:
    """Return the first tests that fit into the given seconds, and how long each takes."""
    chosen: dict[str, float] = {}
    left = budget
    for name in names:
        if (seconds := tests[name]["seconds"]) <= left:
            chosen[name] = seconds
            left -= seconds
    return chosen


def _store(
    mutants: list[Mutant],
    drawn: list[Mutant],
    groups: Iterable[str],
    options: argparse.Namespace,
) -> None:
    results = _results()
    packages = {package: sum(each.package == package for each in mutants) for package in groups}
    earlier = drawn_before(options.seed)
    lines = []
    commits = set()
    for mutant in drawn:
        # What another seed has drawn before had a part in writing the tests.
        if mutant.key in earlier or mutant.key not in results:
            continue
        if results[mutant.key][0]["seed"] != options.seed:
            continue
        first, last = results[mutant.key][0], results[mutant.key][-1]
        commits.add(first["commit"])
        lines.append(
            {
                "package": mutant.package,
                "mutant": mutant.key,
                "by": last["by"],
                "at first": first["by"] is not None,
            }
        )
    about: dict[str, Any] = environment()
    about.pop("scripts")
    about |= {
        "first tried on": sorted(commits),
        "seed": options.seed,
        "size": options.size,
        "budget": options.budget,
        "of": "package" if options.of == "seed" else "kind",
    }
    name = f"{options.of}-{options.seed}"
    write(RESULTS / f"{name}.json", {**about, "mutants": packages}, lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="draws the mutants; defaults to 1")
    parser.add_argument("--size", type=int, default=60, help="mutants a package; defaults to 60")
    parser.set_defaults(of="seed")
    parser.add_argument(
        "--quiet",
        dest="of",
        action="store_const",
        const="quiet",
        help="quiet mutants of all packages, and of kinds for --package",
    )
    parser.add_argument(
        "--lua",
        dest="of",
        action="store_const",
        const="lua",
        help="mutants of the Lua scripts, and of kinds for --package",
    )
    kinds = (*PACKAGES, *quiet.KINDS, *scripts.KINDS)
    parser.add_argument("--package", action="append", choices=kinds, help="only these")
    parser.add_argument(
        "--within", action="append", metavar="FOLDER", help="only of these, such as ackq/worker"
    )
    parser.add_argument(
        "--tests",
        action="append",
        choices=TESTS,
        metavar="FOLDER",
        help="run only tests of these folders; defaults to all",
    )
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    parser.add_argument(
        "--budget",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="of tests for a mutant; defaults to 20",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="runs of pytest side by side; defaults to 1",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
