"""A reliable queue over the Redis list you already push to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackq.config import Confirm, Groups, QueueConfig, RateLimit
from ackq.errors import (
    AckqError,
    ConfigurationError,
    CrossSlotError,
    EvictionPolicyError,
    GroupsMismatch,
    IndexTaken,
    InvalidMessage,
    KeyTypeError,
    LeaseLost,
    LoginRefused,
    MessageError,
    MessageTooLarge,
    NotConfirmed,
    NotSubscribed,
    PartlyStored,
    PlaceLost,
    PublishContention,
    QueueNameError,
    ServerNotFound,
    UnknownOutcome,
    UnsupportedServer,
)
from ackq.late_names import late_names

# A program that needs few of these, such as a process of Spark, does not import the rest.
if TYPE_CHECKING:
    from ackq.core.inspection_results import DeadLetter, Found, PeekedMessage
    from ackq.queue.client import Queue
    from ackq.queue.client_async import AsyncQueue
    from ackq.queue.messages import (
        AuditFinding,
        AuditReport,
        GroupCounts,
        GroupStats,
        Message,
        Pushed,
        QueueStats,
        Redriven,
    )
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "core.inspection_results": "DeadLetter Found PeekedMessage",
            "queue.client": "Queue",
            "queue.client_async": "AsyncQueue",
            "queue.messages": "AuditFinding AuditReport GroupCounts GroupStats Message Pushed"
            " QueueStats Redriven",
        },
    )

__version__ = "0.1.0"

__all__ = [
    "AckqError",
    "AsyncQueue",
    "AuditFinding",
    "AuditReport",
    "ConfigurationError",
    "Confirm",
    "CrossSlotError",
    "DeadLetter",
    "EvictionPolicyError",
    "Found",
    "GroupCounts",
    "GroupStats",
    "Groups",
    "GroupsMismatch",
    "IndexTaken",
    "InvalidMessage",
    "KeyTypeError",
    "LeaseLost",
    "LoginRefused",
    "Message",
    "MessageError",
    "MessageTooLarge",
    "NotConfirmed",
    "NotSubscribed",
    "PartlyStored",
    "PeekedMessage",
    "PlaceLost",
    "PublishContention",
    "Pushed",
    "Queue",
    "QueueConfig",
    "QueueNameError",
    "QueueStats",
    "RateLimit",
    "Redriven",
    "ServerNotFound",
    "UnknownOutcome",
    "UnsupportedServer",
]
