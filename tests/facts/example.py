"""The queue that the facts of the list queue's scripts pass to operations."""

from ackq.config import Groups, QueueConfig
from ackq.queue import claims
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec
from tests.outside import FIXED

SPEC = QueueSpec("jobs", QueueKeys.of("jobs"), QueueConfig(7.0, 11, "back", 12345), outside=FIXED)
GROUPED = QueueSpec(
    "jobs",
    QueueKeys.of("jobs", grouped=True),
    QueueConfig(7.0, 11, "front", 12345, groups=Groups("customer")),
    outside=FIXED,
)
CLAIM = b"jobsCLAIM:<group>:1"


def leased() -> list[Message]:
    """Return a message that is not settled yet."""
    return [Message("jobs", b"k", b"body", 99, 1)]


def group() -> claims.Group:
    """Return a group whose driver is its third."""
    return claims.Group(SPEC, "<group>", 8.0, epoch=3)
