"""Run a command; write its wall time, and the CPU time of all processes that it started.

``python -m benchmarks.tree_cpu RESULT COMMAND...`` writes JSON to RESULT. It ends as the command
does. Linux gives it the processes whose parents ended first, as Spark's Python workers.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

#: An option of prctl: orphans become children of this process, not of the first one.
_SUBREAPER = 36
#: Seconds for which processes may outlive the command.
PATIENCE = 30.0


def main(result: str, *command: str) -> int:
    """Run the command."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    began = time.perf_counter()
    code = subprocess.call(command)
    seconds = time.perf_counter() - began
    _wait_for_orphans()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime}
    Path(result).write_text(json.dumps(found))
    return code


def _wait_for_orphans() -> None:
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.05)
        except ChildProcessError:
            return


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
