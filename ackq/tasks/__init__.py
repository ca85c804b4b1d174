"""Functions as tasks: pushed with their arguments, checked, and called by a worker.

It needs ``pip install 'ackq[tasks]'``. [Tasks](tasks.md) shows how to use it.
"""

from ackq.config import RateLimit
from ackq.errors import ConfigurationError, InvalidArguments

try:
    import msgspec  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise ConfigurationError("ackq.tasks needs msgspec: pip install 'ackq[tasks]'") from error

from ackq.tasks.arguments import State, injected
from ackq.tasks.policy import Breaker, Later, Retry
from ackq.tasks.tasks import BatchTask, Task, Tasks
from ackq.tasks.tasks_async import AsyncBatchTask, AsyncTask, AsyncTasks
from ackq.worker.batch import Failed
from ackq.worker.policy import Backoff
from ackq.worker.verdicts import Again, Reject

__all__ = [
    "Again",
    "AsyncBatchTask",
    "AsyncTask",
    "AsyncTasks",
    "Backoff",
    "BatchTask",
    "Breaker",
    "Failed",
    "InvalidArguments",
    "Later",
    "RateLimit",
    "Reject",
    "Retry",
    "State",
    "Task",
    "Tasks",
    "injected",
]
