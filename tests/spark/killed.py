"""Kill a driver with all its processes, and search its files for secrets."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from tests.conftest import WITHOUT
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
#: What kills a driver from within one of its processes, where FAULT says; to be on PYTHONPATH.
FAULTS = ROOT / "tests" / "spark" / "faults"


def run_until_killed(
    module: str,
    *arguments: str | Path,
    folder: Path,
    environment: Mapping[str, str],
    timeout: float = 180,
) -> None:
    """Run a driver until it says in its folder that it has reached its point, and kill it there.

    Where the environment has a FAULT the driver is killed from within instead.
    """
    paths = os.pathsep.join(map(str, (ROOT, FAULTS, WITHOUT)))
    settings = {"PYTHONPATH": paths, "PIDS": str(folder / "pids"), **environment}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, **settings},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: (folder / "reached").exists() or process.poll() is not None,
            "the driver to reach its point",
            timeout=timeout,
        )
        expected = -signal.SIGKILL if "FAULT" in environment else None
        assert process.poll() == expected, (folder / "output").read_text()[-3000:]
    finally:
        family = _family(process.pid)
        # The JVM first, so that no process can react to the end of another.
        for each in sorted(family, key=lambda each: each.info["name"] != "java"):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()
        psutil.wait_procs(family, timeout=10)


@contextlib.contextmanager
def running_pipeline(config: Path, url: str, output: Path) -> Iterator[psutil.Popen]:
    """Run `ackq pipeline run --once`; at the end of the block kill it, its JVM and its workers."""
    with output.open("wb") as file:
        process = psutil.Popen(
            [
                sys.executable,
                "-c",
                "from ackq.cli import main; main()",
                "pipeline",
                "run",
                config,
                "--once",
            ],
            cwd=ROOT,
            env={**os.environ, "ACKQ_REDIS_URL": url},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        family = [] if process.poll() is not None else process.children(recursive=True)
        # The JVM first, so that no process can react to the end of another.
        for each in sorted(family, key=lambda each: each.name() != "java"):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
        process.wait()
        psutil.wait_procs(family, timeout=10)


def assert_silent(folder: Path, secret: str) -> None:
    """Check that no secret is in the checkpoint, the event log or the output."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    events = [path.read_bytes() for path in files if "events" in path.parts]
    assert any(b"SparkListenerSQLExecutionStart" in event for event in events)
    assert any("checkpoint" in path.parts for path in files)
    for path in files:
        assert secret.encode() not in path.read_bytes(), path


def _family(leader: int) -> list[psutil.Process]:
    """Return the processes of a session; a leader that was killed has no children any more."""
    return [each for each in psutil.process_iter(["name"]) if _session(each.pid) == leader]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
