"""Which operations are observed: their names, and where their arguments are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackq.delay import push as delay_push
from ackq.delay import settle as delay_settle
from ackq.delay import take as delay_take
from ackq.queue import push, settle, take
from ackq.queue.messages import Message
from ackq.rsmq import operations as rsmq
from ackq.rsmq.values import RSMQSpec
from ackq.topic import consume, publish
from ackq.topic import settle as topic_settle
from ackq.topic.messages import Batch

Args = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """A push of one message, or of several."""

    name: str
    #: The position of the message or messages among the arguments.
    at: int = 1
    many: bool = False

    def messages(self, args: Args) -> tuple[Args, Sequence[Any]]:
        """Return the arguments, which can be read again, and the messages among them."""
        if not self.many:
            return args, (args[self.at],)
        return _listed(args, self.at)


@dataclass(frozen=True, slots=True)
class Receive:
    """A take of up to as many messages as the argument at position ``wanted`` says."""

    name: str
    wanted: int = 1
    #: The position of the messages to settle in the same call; 0: there are none.
    settles: int = 0
    #: What that settle is called.
    settled_as: str = ""

    def settled(self, args: Args) -> tuple[Args, Sequence[Any]]:
        """Return the arguments, which can be read again, and the messages that are settled."""
        return _listed(args, self.settles) if self.settles else (args, ())

    def group(self, args: Args) -> str | None:
        """Return the id of a topic's consumer."""
        return str(args[1]) if self.settled_as == "commit" else None


@dataclass(frozen=True, slots=True)
class Settle:
    """A settle of messages, batches or ids."""

    name: str
    at: int = 1

    def messages(self, args: Args) -> tuple[Args, Sequence[Any]]:
        """Return the arguments, which can be read again, and what is settled."""
        return _listed(args, self.at)

    def named(self, settings: Mapping[str, Any]) -> str:
        """Return the name of the client's method: a nack that does not count is a release."""
        return self.name if settings.get("charge", True) else "release"


OPERATIONS: Mapping[Callable[..., Any], Send | Receive | Settle] = {
    push.push: Send("push"),
    push.push_many: Send("push", many=True),
    take.pop_many: Receive("pop", settles=4, settled_as="ack"),
    settle.ack: Settle("ack"),
    settle.nack: Settle("nack"),
    settle.reject: Settle("reject"),
    delay_push.push_many: Send("push", many=True),
    delay_take.take: Receive("take"),
    delay_settle.delete: Settle("delete"),
    delay_settle.nack: Settle("nack"),
    delay_settle.reject: Settle("reject"),
    publish.publish: Send("publish"),
    publish.publish_many: Send("publish", many=True),
    consume.consume: Receive("consume", wanted=2, settles=5, settled_as="commit"),
    topic_settle.commit: Settle("commit"),
    topic_settle.release: Settle("release"),
    rsmq.send_message: Send("send", at=2),
    rsmq.send_messages: Send("send", at=2, many=True),
    rsmq.receive_messages: Receive("receive", wanted=2),
    rsmq.delete_messages: Settle("delete", at=2),
}


def destination_of(args: Args) -> str:
    """Return the name of the queue or topic, with RSMQ's namespace."""
    spec = args[0]
    return f"{spec.ns}:{args[1]}" if isinstance(spec, RSMQSpec) else str(spec.name)


def _listed(args: Args, at: int) -> tuple[Args, Sequence[Any]]:
    """Return the arguments with a sequence at ``at``: an iterator could be read only once."""
    given = args[at]
    if isinstance(given, Message | Batch):
        return args, (given,)
    if isinstance(given, list | tuple) or not isinstance(given, Iterable):
        # The operation itself refuses what is not iterable.
        return args, given if isinstance(given, Sequence) else ()
    found = tuple(given)
    return (*args[:at], found, *args[at + 1 :]), found
