"""The list queue, its claims (batches of messages) and staged writes (rows with a commit)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackq.late_names import late_names

if TYPE_CHECKING:
    from ackq.queue.claims_client import Claims
    from ackq.queue.client import Queue
    from ackq.queue.client_async import AsyncQueue
    from ackq.queue.staging_client import Staging
    from ackq.staging.keys import Staged
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "claims_client": "Claims",
            "client": "Queue",
            "client_async": "AsyncQueue",
            "staging_client": "Staged Staging",
        },
    )

__all__ = ["AsyncQueue", "Claims", "Queue", "Staged", "Staging"]
