"""One worker process of ``ackq work``, started by `ackq.worker.processes`."""

from __future__ import annotations

import os
import signal
import sys
import threading

from ackq.errors import ConfigurationError
from ackq.worker.logs import log
from ackq.worker.plan import PLAN_VARIABLE, Plan, set_up_logs
from ackq.worker.processes import CANNOT, LIFELINE_VARIABLE


def main() -> int:
    """Work as planned; a plan that cannot work is not worth another try."""
    plan = Plan.loads(os.environ.pop(PLAN_VARIABLE))
    _end_with_parent(int(os.environ.pop(LIFELINE_VARIABLE)))
    set_up_logs(plan.log_json, plan.verbose)
    try:
        plan.run()
    except ConfigurationError as error:
        log.error("%s", error)
        return CANNOT
    return 0


def _end_with_parent(lifeline: int) -> None:
    """Stop when the parent is gone, however it went: its end of the pipe closes."""

    def watch() -> None:
        os.read(lifeline, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
