"""Compiles all modules before the test processes start, so that each does not compile them all.

pytest keeps test files with rewritten assertions apart, in files of its own.
"""

import compileall
import multiprocessing
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).parents[1]
#: Those whose assertions pytest rewrites.
REWRITTEN = re.compile(r"/(test_\w+|conftest)\.py$")


def compile_modules(config: pytest.Config) -> None:
    """Compile what has changed since it was compiled last, on all processors."""
    if sys.dont_write_bytecode or sys.platform != "linux":
        return
    for folder in ("ackq", "benchmarks", "tests"):
        compileall.compile_dir(ROOT / folder, quiet=2, rx=REWRITTEN, workers=0)
    stale = [
        path
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if REWRITTEN.search(str(path)) and not _is_fresh(path)
    ]
    processors = os.cpu_count() or 1
    fork = multiprocessing.get_context("fork").Process
    writers = [
        fork(target=_write, args=(config, stale[first::processors])) for first in range(processors)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def _compiled(path: Path) -> Path:
    return rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"


def _is_fresh(path: Path) -> bool:
    compiled = _compiled(path)
    return compiled.exists() and compiled.stat().st_mtime > path.stat().st_mtime


def _write(config: pytest.Config, paths: Sequence[Path]) -> None:
    state = config.stash[rewrite.assertstate_key]
    for path in paths:
        _compiled(path).parent.mkdir(exist_ok=True)
        source, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(state, code, source, _compiled(path))
