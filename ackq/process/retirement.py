"""Ends a worker process that has handled enough messages, or uses too much memory, once idle."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from ackq.worker.logs import log
from ackq.worker.state import State

#: Where Linux writes how many pages a process occupies.
STATM = Path("/proc/self/statm")
#: Seconds between two looks at the memory.
INTERVAL = 1.0
_MIB = 1024 * 1024


class Recycling:
    """Stops the worker of a process that has handled enough messages, or uses too much memory."""

    def __init__(self, max_memory: int | None) -> None:
        self._max_memory = max_memory
        self._next = 0.0
        self._enough = False
        #: Whether the process ended for this reason, and so needs a successor.
        self.ended = False

    def watch(self, state: State) -> None:
        """Take no more messages if there were enough; stop when all are settled."""
        self._enough = self._enough or self._is_enough(state)
        if not self._enough or state.stopping:
            return
        # Each time, since an operator may have told the worker to go on.
        state.hush(True)
        if state.settled() and not any(lane.take.under_way for lane in state.lanes):
            self.ended = True
            state.stop()

    def _is_enough(self, state: State) -> bool:
        if state.quota is not None and not state.quota.left:
            log.info("enough messages handled: ending this process when idle")
            return True
        now = state.clock()
        if self._max_memory is None or now < self._next:
            return False
        self._next = now + INTERVAL
        if (used := resident()) <= self._max_memory:
            return False
        log.info("%d MiB of memory in use: ending this process when idle", used)
        return True


def resident() -> int:
    """Return the memory of this process in MiB; without Linux's /proc, the most it has had."""
    try:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // _MIB
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most // (_MIB if sys.platform == "darwin" else 1024)
