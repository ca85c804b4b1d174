"""Spare processes: they have imported the handler, so that one that ends is replaced at once.

To start a process and to import the handler may take seconds, in which the messages that ran beside
a crash would wait. So after a crash that messages may have caused, spares are kept for a while.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

from ackq.process.plan import PLAN_VARIABLE, Plan

#: Passes a process the descriptor of a socket that closes when its parent is gone. Over it, a spare
#: gets its plan. A process reports over it the server of its tasks, if the plan does not name it;
#: that it ends, with which code; and why its plan cannot work, so that the parent can log the
#: reason once for all. An exit code without that report is a handler's: a crash.
LIFELINE_VARIABLE = "ACKQ_WORK_LIFELINE"
#: Spares that are kept: one for the process that crashed, one for that of the suspects.
MOST = 2
#: Processors that this machine lets us use.
PROCESSORS = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
#: Seconds after the last crash for which they are kept.
KEPT = 30.0


class Started:
    """A process, and the parent's ends of what connects them."""

    def __init__(self, plan: Plan) -> None:
        """Start a process. It is in a group of its own, so that Ctrl-C reaches only the parent."""
        self.lifeline, theirs = socket.socketpair()
        environment = {
            **os.environ,
            PLAN_VARIABLE: plan.dumps(),
            LIFELINE_VARIABLE: str(theirs.fileno()),
        }
        has_input = plan.is_spare or plan.patience is not None
        try:
            # -P: files in the current folder cannot hide modules that are imported at the start.
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ackq.process"],
                env=environment,
                pass_fds=[theirs.fileno()],
                process_group=0,
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            )
        except BaseException:
            self.lifeline.close()
            raise
        finally:
            theirs.close()
        if self.process.stdin is not None:
            os.set_blocking(self.process.stdin.fileno(), False)

    def begin(self, plan: Plan) -> bool:
        """Give a spare its plan. Return False if it has ended."""
        with contextlib.suppress(OSError):
            self.lifeline.sendall(plan.dumps().encode() + b"\n")
            return self.process.poll() is None
        return False

    def close(self) -> None:
        """Close the parent's ends."""
        self.lifeline.close()
        if self.process.stdin is not None:
            self.process.stdin.close()  # never fails: what is written here is never buffered

    def kill(self) -> None:
        """Kill a spare, and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.close()


class Spares:
    """The spare processes of a plan."""

    def __init__(self, plan: Plan) -> None:
        """Begin with none."""
        self._plan = plan.replaced(is_spare=True)
        self._waiting: list[Started] = []
        self._until = 0.0

    @property
    def pids(self) -> set[int]:
        """The ids of their processes."""
        return {each.process.pid for each in self._waiting}

    def keep(self) -> None:
        """Have spares for a while: further crashes are likely."""
        self._until = time.monotonic() + KEPT

    def renew(self, starting: int) -> None:
        """Replace those that were used, or end all if there was no crash for a while.

        One that has ended by itself is found only when it is needed: the next may end, too.

        Args:
            starting: how many other processes start now. They come first: spares that start beside
                them get the processors that they leave.
        """
        if time.monotonic() >= self._until:
            self.close()
            return
        most = min(MOST, PROCESSORS - starting) if starting else MOST
        with contextlib.suppress(OSError):  # too many processes, perhaps: it works without
            while len(self._waiting) < most:
                self._waiting.append(Started(self._plan))

    def start(self, plan: Plan) -> Started:
        """Return a process for a plan: a spare if there is one, or else a new one."""
        while self._waiting:
            if (spare := self._waiting.pop(0)).begin(plan):
                return spare
            spare.kill()
        return Started(plan)

    def close(self) -> None:
        """End them."""
        while self._waiting:
            self._waiting.pop().kill()
