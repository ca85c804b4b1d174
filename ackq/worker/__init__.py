"""Run a handler for every message of a queue, with retries, leases and limits taken care of.

`Worker` runs handlers in threads, `AsyncWorker` in the tasks of an event loop. Both take the same
settings and follow the same rules.
"""

from ackq.config import RateLimit
from ackq.worker.batch import Batch, Failed
from ackq.worker.health import Health
from ackq.worker.hooks import Hooks
from ackq.worker.policy import Backoff, Terms
from ackq.worker.schedule import Schedule
from ackq.worker.tasks import AsyncWorker
from ackq.worker.threads import Worker
from ackq.worker.verdicts import Again, Reject, Release, Verdict

__all__ = [
    "Again",
    "AsyncWorker",
    "Backoff",
    "Batch",
    "Failed",
    "Health",
    "Hooks",
    "RateLimit",
    "Reject",
    "Release",
    "Schedule",
    "Terms",
    "Verdict",
    "Worker",
]
