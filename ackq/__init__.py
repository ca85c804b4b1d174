"""A reliable queue over the Redis list you already push to."""

from ackq.aio.queue import AsyncQueue
from ackq.config import Confirm, QueueConfig
from ackq.errors import (
    AckqError,
    ConfigurationError,
    CrossSlotError,
    EvictionPolicyError,
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
from ackq.message import (
    AuditFinding,
    AuditReport,
    DeadLetter,
    Message,
    PeekedMessage,
    QueueStats,
)
from ackq.sync.queue import Queue

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
    "Queue",
    "QueueConfig",
    "QueueNameError",
    "QueueStats",
    "ServerNotFound",
    "UnknownOutcome",
    "UnsupportedServer",
]
