"""Ends what a killed test run left behind: servers, workers and other processes.

``python -m tests.reaper FOLDER MARK`` waits until its parent is gone, then kills the processes
whose working directory is in FOLDER, or whose environment has MARK. A server has overwritten its
environment, but works in its data folder.
"""

import os
import select
import subprocess
import sys
from pathlib import Path

import psutil

#: The variable with the mark of a run.
VARIABLE = "ACKQ_TEST_RUN"
#: Seconds between two looks at the parent. A forked child may hold the pipe open for longer.
POLL = 2.0


def watch(folder: Path, mark: str) -> subprocess.Popen[bytes]:
    """Start a reaper for this process. Closing its standard input ends it, too."""
    command = [sys.executable, "-m", "tests.reaper", str(folder), mark]
    root = Path(__file__).parents[1]
    return subprocess.Popen(command, stdin=subprocess.PIPE, cwd=root, start_new_session=True)


def reap(folder: Path, mark: str) -> None:
    """Kill the processes of a run."""
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and _belongs(process, folder, mark):
                process.kill()
        except psutil.Error:
            continue  # it has ended, or is another user's


def _belongs(process: psutil.Process, folder: Path, mark: str) -> bool:
    if Path(process.cwd()).is_relative_to(folder):
        return True
    return process.environ().get(VARIABLE) == mark


def main() -> None:
    """Wait for the end of the parent, then reap."""
    parent = os.getppid()
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], POLL)[0]:
            break
    reap(Path(sys.argv[1]).resolve(), sys.argv[2])


if __name__ == "__main__":
    main()
