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

from .equivalent import reason_of
from .mutants import PACKAGES, ROOT, Mutant, plant
from .report import RESULTS, write

#: Where a run keeps its files.
WORK = ROOT / ".mutation"
TREE = WORK / "tree"
#: The folders whose tests may notice a mutant. Those of Spark do without a JVM.
TESTS = (
    "core", "queue", "delay", "topic", "rsmq", "sharded", "membership", "staging", "worker",
    "dropin", "faults", "ops", "otel", "spark",
)  # fmt: skip
#: Files of tests/spark that need a JVM at most for some tests, which `plugin` leaves out.
WITHOUT_JVM = (
    "options", "rows", "sink_task", "sink_rows", "reading_parts", "source", "stream", "topic",
    "sink", "peek",
)  # fmt: skip
#: Tests that last longer than this are not run, nor more tests than fit into the budget.
LONGEST_TEST = 3.0
ARGUMENTS = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "tests.mutation.plugin",
             "--timeout", "20", "-m", "not campaign")  # fmt: skip


def main() -> int:
    """Draw, try, store, report."""
    options = _options()
    print("planting the mutants ...", flush=True)
    mutants = plant(TREE)
    drawn = _draw(mutants, options.seed, options.size, options.package or PACKAGES)
    results = _results()
    wanted = [each for each in drawn if _is_open(each, results, options.again)]
    if wanted:
        tests = _recorded()
        plan = [_planned(each, tests, options.budget) for each in wanted]
        _pytest(
            {"into": str(WORK / "results.jsonl"), "plan": plan},
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
    """Choose tests that call the function: the quickest of each file in turn."""
    by_file: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for name, test in tests.items():
        if mutant.called in test["functions"] and test["seconds"] <= LONGEST_TEST:
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
    return {"key": mutant.key, "name": mutant.name, "tests": chosen, "limit": 30 + 4 * total}


def _recorded() -> dict[str, dict[str, Any]]:
    """Return which functions each test calls; run those whose file has changed since."""
    path = WORK / "tests.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    files = {}
    for folder in TESTS:
        for each in sorted((ROOT / "tests" / folder).rglob("test_*.py")):
            text = each.read_text()
            if folder == "spark" and each.stem.removeprefix("test_") not in WITHOUT_JVM:
                continue
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            files[str(each.relative_to(ROOT))] = digest
    stale = [file for file, digest in files.items() if known.get(file, {}).get("digest") != digest]
    if stale:
        print(f"recording which functions the tests of {len(stale)} files call ...", flush=True)
        into = WORK / "recorded.jsonl"
        into.unlink(missing_ok=True)
        _pytest({"into": str(into)}, stale)
        for file in stale:
            known[file] = {"digest": files[file], "tests": {}}
        for line in into.read_text().splitlines():
            test = json.loads(line)
            file = test["test"].partition("::")[0]
            known[file]["tests"][test["test"]] = {
                "seconds": test["seconds"], "functions": test["functions"]
            }  # fmt: skip
        path.write_text(json.dumps({file: known[file] for file in files if file in known}))
    return {name: test for file in files for name, test in known[file]["tests"].items()}


def _pytest(order: dict[str, Any], files: list[str]) -> None:
    path = WORK / "order.json"
    path.write_text(json.dumps(order))
    surroundings = {
        "ACKQ_TEST_SERVERS": "debian", **os.environ, "ACKQ_MUTATION": str(path),
        "PYTHONPATH": str(TREE), "PYTHONDONTWRITEBYTECODE": "",
    }  # fmt: skip
    anchor = "tests/mutation/anchor.py"
    subprocess.run(
        [sys.executable, "-m", "pytest", *ARGUMENTS, anchor, *files],
        cwd=TREE, env=surroundings, check=False,
    )  # fmt: skip


def _store(mutants: list[Mutant], drawn: list[Mutant], options: argparse.Namespace) -> None:
    results = _results()
    packages = {package: sum(each.package == package for each in mutants) for package in PACKAGES}
    lines = []
    for mutant in drawn:
        if mutant.key not in results:
            continue
        first, last = results[mutant.key][0], results[mutant.key][-1]
        lines.append({"package": mutant.package, "mutant": mutant.key, "by": last["by"],
                      "at first": first["by"] is not None})  # fmt: skip
    about = {key: each for key, each in environment().items() if key != "scripts"}
    about |= {"seed": options.seed, "size": options.size, "budget": options.budget}
    write(RESULTS / "results.json", {**about, "mutants": packages}, lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="draws the mutants; defaults to 1")
    parser.add_argument("--size", type=int, default=60, help="mutants a package; defaults to 60")
    parser.add_argument("--package", action="append", choices=PACKAGES, help="only these")
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    parser.add_argument("--budget", type=float, default=20.0, metavar="SECONDS",
                        help="of tests for a mutant; defaults to 20")  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
