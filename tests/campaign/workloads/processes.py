"""Worker processes, as ``ackq work --processes`` runs them: parents that replace children."""

import os
import random
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

from ackq import Message
from tests.histories.log import FileLog
from tests.products import LEASE, value

from .listed import GroupsRig, ListRig
from .rig import Role
from .workers import Deliveries, stop_when_over

PROCESSES = 3
#: Tell a child where to write what it does.
_HISTORY, _LABEL = "ACKQ_CAMPAIGN_HISTORY", "ACKQ_CAMPAIGN_LABEL"
_ROOT = Path(__file__).parents[3]


class ProcessWorkerRig(ListRig):
    """The parent of worker processes. Each of its children runs `handle`."""

    rules: ClassVar[dict[str, Any]] = {"gives_back": True}

    async def serve(self, role: Role) -> None:
        # Not above: the previous release, which runs other workloads, does not have them.
        from ackq.process.children import Processes
        from ackq.process.plan import Plan

        os.environ |= {
            "PYTHONPATH": str(_ROOT),
            _HISTORY: str(role.history.absolute()),
            _LABEL: role.label,
        }
        # No handler takes as long as the grace: one that is abandoned is released, unwritten.
        plan = Plan(
            f"{__name__}:handle",
            (self.site.name,),
            url=f"redis://127.0.0.1:{self.site.port}",
            concurrency=4,
            processes=PROCESSES,
            lease=LEASE,
            max_receives=0,
            grace=30,
        )
        processes = Processes(plan)
        threading.Thread(target=stop_when_over, args=(role, processes), daemon=True).start()
        role.log.close()  # to show that this process has begun
        processes.run()


class GroupsProcessWorkerRig(ProcessWorkerRig, GroupsRig):
    """The same, of a queue with groups, which they know from its record."""

    rules: ClassVar[dict[str, Any]] = {"group_in_flight": 1, "gives_back": True}

    async def prepare(self) -> None:
        await super().prepare()
        await value(self.queue.pop())  # records the groups


def handle(message: Message) -> None:
    """Write a delivery, work, and write that it is about to be acked."""
    deliveries = _deliveries()
    token = deliveries.begin(message)
    draw = random.Random(f"{message.id} {message.receive_count}")
    if draw.random() < 0.05:
        time.sleep(LEASE * draw.uniform(0.7, 2.7))
    deliveries.log.begin("ack", of=[token])


_lock = threading.Lock()
_opened: list[Deliveries] = []


def _deliveries() -> Deliveries:
    """Return what this child writes with."""
    with _lock:
        if not _opened:
            label = f"{os.environ[_LABEL]}-{os.getpid()}"
            log = FileLog(Path(os.environ[_HISTORY]) / f"{label}.jsonl")
            _opened.append(Deliveries(log, label))
    return _opened[0]
