"""A reliable queue over the Redis list you already push to."""

from ackq.config import Confirm, Groups, QueueConfig
from ackq.core.inspection_results import DeadLetter, Found, PeekedMessage
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
from ackq.queue.client import Queue
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import (
    AuditFinding,
    AuditReport,
    GroupStats,
    Message,
    Pushed,
    QueueStats,
    Redriven,
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
    "Redriven",
    "ServerNotFound",
    "UnknownOutcome",
    "UnsupportedServer",
]
