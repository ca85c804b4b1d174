"""RSMQ: queues shared with the JavaScript original, PyRSMQ and other ports, on the same keys."""

from ackq.errors import (
    InvalidFormat,
    InvalidValue,
    MessageNotString,
    MessageTooLong,
    MissingParameter,
    NoAttributeSupplied,
    QueueExists,
    QueueNotFound,
    RSMQError,
)
from ackq.rsmq.client import RSMQ
from ackq.rsmq.client_async import AsyncRSMQ
from ackq.rsmq.values import QueueAttributes, RSMQCounters, RSMQDeadLetter, RSMQMessage

__all__ = [
    "RSMQ",
    "AsyncRSMQ",
    "InvalidFormat",
    "InvalidValue",
    "MessageNotString",
    "MessageTooLong",
    "MissingParameter",
    "NoAttributeSupplied",
    "QueueAttributes",
    "QueueExists",
    "QueueNotFound",
    "RSMQCounters",
    "RSMQDeadLetter",
    "RSMQError",
    "RSMQMessage",
]
