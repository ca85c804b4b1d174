"""What spans say of messages: the ids and bodies of each product's own classes.

Nothing here fails for a wrong argument: the operation itself refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackq.core.task_name import task_of
from ackq.delay.messages import DelayedMessage, DelayEntry
from ackq.otel.telemetry import BODY_SIZE, COUNT, DEAD, MESSAGE_ID, RECEIVES, SETTLED, TASK
from ackq.queue.messages import Message
from ackq.rsmq.values import RSMQMessage
from ackq.topic.messages import Batch, TopicMessage

Facts = dict[str, str | int]

_WITH_BODY = (Message, DelayedMessage, DelayEntry, TopicMessage, RSMQMessage)


def id_of(message: Any) -> str:
    """Return what names a message in its queue or topic."""
    if isinstance(message, DelayedMessage | DelayEntry):
        return str(message.key)
    if isinstance(message, TopicMessage):
        return str(message.index)
    return message if isinstance(message, str) else str(getattr(message, "id", ""))


def id_sent(message: Any, result: Any) -> str:
    """Return the id of the only message of a push, or nothing if it has none."""
    if isinstance(message, DelayEntry):
        return id_of(message)
    return str(result[0] if isinstance(result, list) else result)


def body_of(message: Any) -> Any:
    """Return the body of a message that was taken, or is being pushed."""
    return message.body if isinstance(message, _WITH_BODY) else message


def taken_facts(messages: Sequence[Any], batch: bool) -> Facts:
    """Return attributes of a span about messages that were taken.

    Args:
        messages: at least one, unless it is a batch.
        batch: whether the call could have been about several.
    """
    if batch:
        return {COUNT: len(messages)}
    facts: Facts = {MESSAGE_ID: id_of(messages[0]), BODY_SIZE: len(messages[0].body)}
    if count := getattr(messages[0], "receive_count", getattr(messages[0], "rc", None)):
        facts[RECEIVES] = count
    if task := task_of(messages[0].body):
        facts[TASK] = task
    return facts


def settled_facts(settled: Sequence[Any]) -> Facts:
    """Return attributes of a span about messages, ids, or batches of a topic."""
    if settled and isinstance(settled[0], Batch):
        return {COUNT: sum(map(len, settled))}
    return {MESSAGE_ID: id_of(settled[0])} if len(settled) == 1 else {COUNT: len(settled)}


def dead_of(name: str, spec: Any, settled: Sequence[Any]) -> int:
    """Return how many messages a settle makes dead letters, if it succeeds."""
    if name == "reject":
        return len(settled)
    config = getattr(spec, "config", None)
    most = getattr(config, "max_receives", None)
    if name != "nack" or not most:
        return 0
    return sum(getattr(message, "receive_count", 0) >= most for message in settled)


def results_of(settled: Sequence[Any], result: Any, dying: int) -> Facts:
    """Return attributes of a span about what a settle did: dead letters, and fewer than it named.

    A message that was settled before is no error, but it is not settled again.
    """
    facts: Facts = {}
    count = result if isinstance(result, int) else len(settled)
    if count < len(settled):
        facts[SETTLED] = int(count)
    if dying and count:
        facts[DEAD] = min(dying, int(count))
    return facts


def partition_of(messages: Sequence[Any]) -> int | None:
    """Return the partition that all messages are in; None if there is no such one."""
    first = getattr(messages[0], "partition", None) if messages else None
    if not isinstance(first, int):
        return None
    return first if all(message.partition == first for message in messages[1:]) else None


def group_of(settled: Sequence[Any]) -> str | None:
    """Return the id of the topic's consumer that read all of these batches, or None."""
    groups = {batch.consumer for batch in settled if isinstance(batch, Batch)}
    return groups.pop() if len(groups) == 1 else None
