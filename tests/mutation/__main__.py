"""``python -m tests.mutation``: try mutants that a seed draws, and store the results.

Continue an ended run with the same command. ``--again`` tries the survivors once more, after new
tests have been written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.campaign.run import environment

from .mutants import PACKAGES, WORK, Mutant
from .mutants import mutants as all_mutants
from .places import ROOT
from .report import RESULTS, write
from .survivors import reason_of
from .twins import Twin, twin_of

#: The folders whose tests may notice a mutant. Those of Spark do without a JVM.
TESTS = (
    "core", "queue", "delay", "topic", "rsmq", "sharded", "membership", "staging", "worker",
    "dropin", "faults", "ops", "otel", "metrics", "web", "spark",
)  # fmt: skip
#: Of some folders only these files. Those of Spark need a JVM at most for some tests, which
#: `plugin` leaves out; the others of the page need a browser.
ONLY = {
    "spark": (
        "options", "rows", "sink_task", "sink_rows", "reading_parts", "source", "stream", "topic",
        "sink", "peek", "conversions",
    ),
    "web": ("guard",),
}  # fmt: skip
#: The tests of the defaults of arguments.
DEFAULTS = "tests/core/test_defaults.py::"
#: The test that starts the servers.
ANCHOR = "tests/mutation/anchor.py"
#: Tests that last longer than this are not run, nor more tests than fit into the budget.
LONGEST_TEST = 3.0
ARGUMENTS = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "tests.mutation.plugin",
             "--timeout", "20", "-m", "not campaign")  # fmt: skip


def main() -> int:
    """Draw, try, store, report."""
    options = _options()
    print("making the mutants ...", flush=True)
    mutants = all_mutants()
    drawn = _draw(mutants, options.seed, options.size, options.package or PACKAGES)
    results = _results()
    wanted = [each for each in drawn if _is_open(each, results, options.again)]
    if wanted:
        tests = _recorded(options.tests or TESTS)
        plan = [_planned(each, tests, options.budget) for each in wanted]
        into = str(WORK / "results.jsonl")
        _pytest(
            {
                "into": into,
                "plan": plan,
                "about": {"seed": options.seed, "commit": environment()["commit"]},
            },
            sorted({test.partition("::")[0] for each in plan for test in each["tests"]}),
        )
    drawn = _draw(mutants, options.seed, options.size, PACKAGES)
    _store(mutants, drawn, options)
    return 0


def _draw(mutants: list[Mutant], seed: int, size: int, packages: Iterable[str]) -> list[Mutant]:
    """Return the sample: the same mutants as long as their own lines do not change."""

    def order(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    return [
        mutant
        for package in packages
        for mutant in sorted((each for each in mutants if each.package == package), key=order)[
            :size
        ]
    ]


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
    """Choose tests that run the changed statement: the quickest of each file in turn."""
    by_file: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    twin = twin_of(mutant.function, mutant.code, mutant.place)
    variants: list[Mutant | Twin] = [mutant, twin] if twin else [mutant]
    changed = {each.place for each in variants}
    running = {name: test for name, test in tests.items() if not changed.isdisjoint(test["places"])}
    if mutant.place.endswith("+?"):  # a default value, which a test may look at without a call
        running |= {name: test for name, test in tests.items() if name.startswith(DEFAULTS)}
    if not running:  # code that has changed since the tests were recorded
        functions = tuple(f"{each.function}+" for each in variants)
        running = {
            name: test for name, test in tests.items()
            if any(place.startswith(functions) for place in test["places"])
        }  # fmt: skip
    for name, test in running.items():
        if test["seconds"] <= LONGEST_TEST:
            by_file[name.partition("::")[0]].append((test["seconds"], name))
    turns = sorted(
        (turn, seconds, name)
        for those in by_file.values()
        for turn, (seconds, name) in enumerate(sorted(those))
    )
    chosen, total = [], 0.0
    for _, seconds, name in turns:
        if total + seconds <= budget:
            chosen.append(name)
            total += seconds
    return {
        "key": mutant.key, "code": {each.function: each.code for each in variants},
        "tests": chosen, "limit": 30 + 4 * total,
    }  # fmt: skip


def _recorded(folders: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return which statements each test runs; record the tests of files that have changed."""
    return {name: test for folder in folders for name, test in _recorded_in(folder).items()}


def _recorded_in(folder: str) -> dict[str, dict[str, Any]]:
    path = WORK / "tests" / f"{folder}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    digests = {}
    for file in sorted((ROOT / "tests" / folder).rglob("test_*.py")):
        if folder not in ONLY or file.stem.removeprefix("test_") in ONLY[folder]:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
            digests[str(file.relative_to(ROOT))] = digest
    known = {file: known[file] for file in digests if file in known}
    stale = [file for file in digests if known.get(file, {}).get("digest") != digests[file]]
    if stale:
        print(f"recording what {len(stale)} files of tests/{folder} run ...", flush=True)
        into = path.with_suffix(".jsonl")
        into.write_text("")
        _pytest({"into": str(into)}, stale)
        known |= {file: {"digest": digests[file], "tests": {}} for file in stale}
        for line in into.read_text().splitlines():
            test = json.loads(line)
            if not test["test"].startswith(ANCHOR):
                tests = known[test["test"].partition("::")[0]]["tests"]
                tests[test["test"]] = {"seconds": test["seconds"], "places": test["places"]}
        into.unlink()
        path.write_text(json.dumps(known))
    return {name: test for each in known.values() for name, test in each["tests"].items()}


def _pytest(order: dict[str, Any], files: list[str]) -> None:
    path = WORK / f"order-{os.getpid()}.json"
    path.write_text(json.dumps(order))
    subprocess.run(
        [sys.executable, "-m", "pytest", *ARGUMENTS, ANCHOR, *files], cwd=ROOT, check=False,
        env={"ACKQ_TEST_SERVERS": "debian", **os.environ, "ACKQ_MUTATION": str(path)},
    )  # fmt: skip


def _store(mutants: list[Mutant], drawn: list[Mutant], options: argparse.Namespace) -> None:
    results = _results()
    packages = {package: sum(each.package == package for each in mutants) for package in PACKAGES}
    lines = []
    commits = set()
    for mutant in drawn:
        # What another seed has drawn before had a part in writing the tests.
        if mutant.key not in results or results[mutant.key][0]["seed"] != options.seed:
            continue
        first, last = results[mutant.key][0], results[mutant.key][-1]
        commits.add(first["commit"])
        lines.append({"package": mutant.package, "mutant": mutant.key, "by": last["by"],
                      "at first": first["by"] is not None})  # fmt: skip
    about: dict[str, Any] = environment()
    about.pop("scripts")
    about |= {"first tried on": sorted(commits), "seed": options.seed, "size": options.size,
              "budget": options.budget}  # fmt: skip
    write(RESULTS / f"seed-{options.seed}.json", {**about, "mutants": packages}, lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="draws the mutants; defaults to 1")
    parser.add_argument("--size", type=int, default=60, help="mutants a package; defaults to 60")
    parser.add_argument("--package", action="append", choices=PACKAGES, help="only these")
    parser.add_argument("--tests", action="append", choices=TESTS, metavar="FOLDER",
                        help="run only tests of these folders; defaults to all")  # fmt: skip
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    parser.add_argument("--budget", type=float, default=20.0, metavar="SECONDS",
                        help="of tests for a mutant; defaults to 20")  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
