"""The list queue, its claims (batches of messages) and staged writes (rows with a commit)."""

from ackq.queue.claims_client import Claims
from ackq.queue.client import Queue
from ackq.queue.client_async import AsyncQueue
from ackq.queue.staging_client import Staging
from ackq.staging.keys import Staged

__all__ = ["AsyncQueue", "Claims", "Queue", "Staged", "Staging"]
