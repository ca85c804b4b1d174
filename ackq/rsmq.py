"""RSMQ: queues shared with the JavaScript original, PyRSMQ and other ports, on the same keys."""

from ackq.aio.rsmq import AsyncRSMQ
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
from ackq.protocol.rsmq_values import QueueAttributes, RSMQDeadLetter, RSMQMessage
from ackq.sync.rsmq import RSMQ

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
    "RSMQDeadLetter",
    "RSMQError",
    "RSMQMessage",
]
