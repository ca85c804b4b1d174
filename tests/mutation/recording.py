"""Which statements of ackq, or blocks of its scripts, each test runs: recorded once, and again for
test files that change."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, Literal

from .places import ROOT, WORK

#: The folders whose tests may notice a mutant of a script.
LUA_TESTS = ("queue", "delay", "topic", "rsmq", "sharded", "membership", "staging", "worker", "ops")
#: The folders and files whose tests may notice a mutant of Python. Those of Spark do without a JVM.
TESTS = (
    *LUA_TESTS,
    "core",
    "tasks",
    "dropin",
    "faults",
    "otel",
    "metrics",
    "cli",
    "web",
    "process",
    "test_documented_times.py",
    "test_embedded.py",
    "test_errors.py",
    "test_locks.py",
    "spark",
)
#: The only files of some folders: no browser, and a JVM at most for some tests, which `plugin`
#: leaves out.
ONLY = {
    "web": ("guard", "mounted", "operating", "pages", "idle"),
    "spark": (
        *("options", "rows", "sink_task", "sink_rows", "reading_parts", "source", "stream"),
        *("topic", "sink", "peek", "conversions", "delay_stream", "launch", "pipeline_config"),
        *("pipeline_display", "pipeline_infer", "pipeline_lag", "pipeline_rejects", "report"),
        "submission",
    ),
}
#: The servers of a run: one of each way to reach a server.
SERVERS = "debian,cluster,sentinel"
ONE_SERVER = "debian"
#: The folders whose tests run on all of them. Tests of the others would run the same lines there.
ON_ALL_SERVERS = ("core", "queue", "sharded", "dropin", "faults")
#: Files that one run records: as much is lost if it is interrupted.
AT_ONCE = 12
#: Where Python finds what begins in each process that a test starts.
SITE = str(Path(__file__).with_name("site"))
#: The test that starts the servers.
ANCHOR = "tests/mutation/anchor.py"
ARGUMENTS = (
    *("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "tests.mutation.plugin"),
    *("--timeout", "20", "-m", "not campaign"),
)


def recorded(
    folders: Iterable[str] = (), jobs: int = 1, *, of: Literal["python", "lua"] = "python"
) -> dict[str, dict[str, Any]]:
    """Return which places each test of the folders runs, by default of all that may notice.

    Record the tests of files that have changed.
    """
    (WORK / of).mkdir(parents=True, exist_ok=True)
    folders = folders or (LUA_TESTS if of == "lua" else TESTS)
    with ThreadPool(jobs) as pool:
        return {
            name: test
            for found in pool.imap(partial(_recorded_in, of), folders)
            for name, test in found.items()
        }


def _recorded_in(of: str, folder: str) -> dict[str, dict[str, Any]]:
    path = WORK / of / f"{folder.replace('/', '-')}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    digests = {}
    where = ROOT / "tests" / folder
    for file in [where] if where.is_file() else sorted(where.rglob("test_*.py")):
        if folder not in ONLY or file.stem.removeprefix("test_") in ONLY[folder]:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
            digests[str(file.relative_to(ROOT))] = digest
    known = {file: known[file] for file in digests if file in known}
    stale = [file for file in digests if known.get(file, {}).get("digest") != digests[file]]
    on_all = of == "python" and folder in ON_ALL_SERVERS
    for at in range(0, len(stale), AT_ONCE):
        files = stale[at : at + AT_ONCE]
        print(f"recording what {len(files)} files of tests/{folder} run ...", flush=True)
        known |= {file: {"digest": digests[file], "tests": {}} for file in files}
        for test in _record(of, files, SERVERS if on_all else ONE_SERVER):
            if not test["test"].startswith(ANCHOR):
                tests = known[test["test"].partition("::")[0]]["tests"]
                tests[test["test"]] = {"seconds": test["seconds"], "places": test["places"]}
        with _temporary() as whole:
            whole.write_text(json.dumps(known))
            whole.replace(path)
    return {name: test for each in known.values() for name, test in each["tests"].items()}


def _record(of: str, files: list[str], servers: str) -> list[dict[str, Any]]:
    with _temporary() as into:
        run_pytest({"into": str(into), "of": of}, files, servers)
        return [json.loads(line) for line in into.read_text().splitlines()]


def run_plan(
    plan: list[dict[str, Any]], about: dict[str, Any], into: Path, servers: str = SERVERS
) -> None:
    """Try the mutants of a plan, and append the results to a file."""
    files = {test.partition("::")[0] for each in plan for test in each["tests"]}
    run_pytest({"into": str(into), "plan": plan, "about": about}, sorted(files), servers)


def run_pytest(order: dict[str, Any], files: list[str], servers: str = SERVERS) -> None:
    with _temporary() as path:
        path.write_text(json.dumps(order))
        outer = {name: each for name, each in os.environ.items() if "PYTEST" not in name}
        subprocess.run(
            [sys.executable, "-m", "pytest", *ARGUMENTS, ANCHOR, *files],
            cwd=ROOT,
            check=False,
            env={
                "ACKQ_TEST_SERVERS": servers,
                **outer,
                "ACKQ_MUTATION": str(path),
                "PYTHONPATH": os.pathsep.join(filter(None, (SITE, outer.get("PYTHONPATH")))),
            },
        )


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    """A file that no other run writes."""
    WORK.mkdir(exist_ok=True)
    path = WORK / f"{uuid.uuid4().hex}.tmp"
    path.touch()
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
