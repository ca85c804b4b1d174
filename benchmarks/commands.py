"""The commands: run a benchmark or all of them, compare two runs."""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ackq.bench.figures import Result, from_json, to_json
from ackq.bench.tables import text_of
from benchmarks.comparison import comparison_of
from benchmarks.frame import Options, add_output, add_pace, progress
from benchmarks.registry import BENCHMARKS, benchmark


def run(name: str, arguments: Sequence[str]) -> None:
    """Run one benchmark with its arguments; print and write the results."""
    module = benchmark(name)
    options = Options(name, module.PURPOSE)
    module.options(options)
    settings = options.settings(arguments)
    result = module.run(settings)
    print(text_of(result))
    _write([result], settings.json)


def run_all(arguments: Sequence[str]) -> None:
    """Run every benchmark in a process of its own. If one fails, the others still run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks all", description="Run every benchmark, one after the other."
    )
    add_pace(parser)
    add_output(parser)
    parser.add_argument("--seed", type=int, default=1, help="seed of the random data; default: 1")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    settings = parser.parse_args(arguments)
    pace = [] if settings.pace == "full" else [f"--{settings.pace}"]
    results: list[Result] = []
    failed = []
    with tempfile.TemporaryDirectory(prefix="ackq-bench-") as folder:
        for name in settings.only:
            progress(f"{name} ...")
            path = Path(folder) / f"{name}.json"
            command = [sys.executable, "-m", "benchmarks", name, *pace]
            command += ["--seed", str(settings.seed), "--json", str(path)]
            if subprocess.run(command, check=False).returncode == 0:
                results += read_results(path)
            else:
                failed.append(name)
    _write(results, settings.json)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def compare(arguments: Sequence[str]) -> None:
    """Print how two runs differ."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks compare", description="Compare two runs, figure by figure."
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="a file that --json wrote")
    parser.add_argument("new", type=Path, metavar="NEW", help="another")
    settings = parser.parse_args(arguments)
    # End quietly, like other tools, if the reader (such as head) closes the pipe.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print(comparison_of(read_results(settings.old), read_results(settings.new)))


def read_results(path: Path) -> list[Result]:
    """Return the results in a file; exit with a message if it has none."""
    try:
        return from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")


def _write(results: Sequence[Result], path: Path | None) -> None:
    if path:
        path.write_text(json.dumps(to_json(results), indent=1) + "\n")
