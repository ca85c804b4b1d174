"""The entry point of a worker process of ``ackq work``. `ackq.worker.processes` starts it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time

from ackq.errors import ConfigurationError
from ackq.worker.base import PARTING
from ackq.worker.plan import PLAN_VARIABLE, Plan, set_up_logs
from ackq.worker.processes import CANNOT, LIFELINE_VARIABLE, MOST_WORDS


def main() -> int:
    """Run the plan. Exit with `CANNOT` if it cannot work, so that it is not tried again."""
    plan = Plan.loads(os.environ.pop(PLAN_VARIABLE))
    lifeline = socket.socket(fileno=int(os.environ.pop(LIFELINE_VARIABLE)))
    _end_with_parent(lifeline, plan.grace)
    set_up_logs(plan.log_json, plan.verbose)
    try:
        plan.run()
    except ConfigurationError as error:
        with contextlib.suppress(OSError):  # the parent is gone
            lifeline.sendall(str(error).encode(errors="replace")[:MOST_WORDS])
        return CANNOT
    return 0


def _end_with_parent(lifeline: socket.socket, grace: float) -> None:
    """Stop when the parent has ended for any reason: its end of the socket closes.

    No other process is left to kill this one if it does not stop, so it kills itself.
    """

    def watch() -> None:
        lifeline.recv(1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace + 2 * PARTING)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
