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
from ackq.process.children import CANNOT_WORK, LIFELINE_VARIABLE, MAX_REPORT
from ackq.process.kinship import die_after_parent, survive_parent
from ackq.process.plan import PLAN_VARIABLE, Plan, ending, set_up_logs
from ackq.worker.base import SHUTDOWN_TIMEOUT


def main() -> int:
    """Run the plan. Exit with `CANNOT_WORK` if it cannot work, so that it is not tried again."""
    plan = Plan.loads(os.environ.pop(PLAN_VARIABLE))
    lifeline = socket.socket(fileno=int(os.environ.pop(LIFELINE_VARIABLE)))
    # Ctrl-C is for the parent, which sends SIGINT when the grace is to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent(lifeline, plan.grace)
    set_up_logs(plan.log_json, plan.verbose)

    def report(text: str) -> None:
        with contextlib.suppress(OSError):  # the parent is gone
            lifeline.sendall(text.encode(errors="replace")[:MAX_REPORT])

    try:
        return plan.run(report)
    except ConfigurationError as error:
        report(ending(CANNOT_WORK, str(error)))
        return CANNOT_WORK


def _end_with_parent(lifeline: socket.socket, grace: float) -> None:
    """Stop when the parent has ended for any reason: its end of the socket closes.

    No other process is left to kill this one if it does not stop, so it kills itself; if no code
    in Python can run, the kernel does. A parent that ended before this was called is noticed, too:
    no handler runs yet.
    """
    die_after_parent()

    def watch() -> None:
        lifeline.recv(1)
        survive_parent()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace + 2 * SHUTDOWN_TIMEOUT)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
