"""What people run all day: a handler, and everything around it.

`Worker` runs handlers in threads, `AsyncWorker` in the tasks of an event loop; both are set up
alike and decide alike.
"""

from ackq.worker.health import Health
from ackq.worker.hooks import Hooks
from ackq.worker.policy import Backoff
from ackq.worker.ratelimit import RateLimit
from ackq.worker.schedule import Schedule
from ackq.worker.tasks import AsyncWorker
from ackq.worker.threads import Worker
from ackq.worker.verdicts import Reject, Release, Retry, Verdict

__all__ = [
    "AsyncWorker",
    "Backoff",
    "Health",
    "Hooks",
    "RateLimit",
    "Reject",
    "Release",
    "Retry",
    "Schedule",
    "Verdict",
    "Worker",
]
