"""A killed test run leaves no servers behind."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests import reaper
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
#: Starts a reaper, the embedded server of a folder, and a process elsewhere; then waits.
RUN = """
import os, subprocess, sys, time
from pathlib import Path
from ackq.embedded import Server
from tests import reaper
folder = Path(sys.argv[1])
watching = reaper.watch(folder, "this run")
os.environ[reaper.VARIABLE] = "this run"
server = Server(folder / "server")
server.start()
other = subprocess.Popen(["sleep", "600"], cwd="/")
print(watching.pid, server.pid, other.pid, flush=True)
time.sleep(600)
"""


def test_a_killed_run_leaves_no_processes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), reaper.VARIABLE: "another run"}
    with subprocess.Popen(["sleep", "600"], cwd="/", env=environment) as stranger:
        command = [sys.executable, "-c", RUN, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as run:
            assert run.stdout is not None
            pids = [int(pid) for pid in run.stdout.readline().split()]
            assert len(pids) == 3
            run.kill()
        wait_until(lambda: not any(map(_runs, pids)), "the processes of the run to be gone")
        assert stranger.poll() is None
        stranger.kill()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
