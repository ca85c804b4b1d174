"""The entry point of a worker process of ``ackq work``. `ackq.process.children` starts it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time

from ackq.errors import ConfigurationError
from ackq.process.children import CANNOT_WORK, MAX_REPORT
from ackq.process.kinship import die_after_parent, survive_parent
from ackq.process.plan import PLAN_VARIABLE, Plan, ending, import_object, set_up_logs
from ackq.process.spares import LIFELINE_VARIABLE
from ackq.worker.base import SHUTDOWN_TIMEOUT


def main() -> int:
    """Run the plan. Exit with `CANNOT_WORK` if it cannot work, so that it is not tried again."""
    plan = Plan.loads(os.environ.pop(PLAN_VARIABLE))
    lifeline = socket.socket(fileno=int(os.environ.pop(LIFELINE_VARIABLE)))
    # Ctrl-C is for the parent, which sends SIGINT when the grace is to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_after_parent()
    set_up_logs(plan.log_json, plan.verbose)
    if plan.is_spare:
        text = _wait_for_plan(plan.handler, lifeline)
        if not text:
            return 0
        plan = Plan.loads(text)
        if plan.patience is None:
            _close_input()
    _end_with_parent(lifeline, plan.grace)

    def report(text: str) -> None:
        with contextlib.suppress(OSError):  # the parent is gone
            lifeline.sendall(text.encode(errors="replace")[:MAX_REPORT])

    try:
        return plan.run(report)
    except ConfigurationError as error:
        report(ending(CANNOT_WORK, str(error)))
        return CANNOT_WORK


def _wait_for_plan(handler: str, lifeline: socket.socket) -> str:
    """Import the handler, and return the plan of this spare; nothing if the parent is gone."""
    suspects = os.dup(0)
    _close_input()  # nothing that is imported can read it
    with contextlib.suppress(ConfigurationError):  # it is raised again, and reported
        import_object(handler)
    os.dup2(suspects, 0)
    os.close(suspects)
    with lifeline.makefile() as lines:
        line = lines.readline()
    survive_parent()
    return line if line.endswith("\n") else ""


def _close_input() -> None:
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def _end_with_parent(lifeline: socket.socket, grace: float) -> None:
    """Stop when the parent has ended for any reason: its end of the socket closes.

    No other process is left to kill this one if it does not stop, so it kills itself; if no code
    in Python can run, the kernel does. A parent that ended before this was called is noticed, too:
    no handler runs yet.
    """

    def watch() -> None:
        with contextlib.suppress(OSError):  # the parent has not read all that was reported
            lifeline.recv(1)
        survive_parent()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace + 2 * SHUTDOWN_TIMEOUT)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
