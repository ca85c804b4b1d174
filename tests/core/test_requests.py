"""The first request of every operation: whether it is sent again after a lost reply, and what an
error reply about a key becomes."""

import math
from typing import Any

import pytest
from redis.exceptions import ResponseError

from ackq.config import QueueConfig
from ackq.core.effects import Clock, Operation, Request
from ackq.delay import admin, messages, peek
from ackq.delay import push as delay_push
from ackq.delay import settle as delay_settle
from ackq.delay import take as delay_take
from ackq.errors import KeyTypeError
from ackq.membership import operations as membership
from ackq.queue import inspection, push, settle, take
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.push_options import PushOptions
from ackq.queue.spec import QueueSpec
from ackq.rsmq import operations as rsmq
from ackq.rsmq.values import RSMQSpec
from ackq.staging.keys import StagingKeys
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic import consume, place, publish
from ackq.topic import settle as topic_settle
from ackq.topic.keys import TopicKeys
from ackq.topic.messages import Batch
from ackq.topic.spec import TopicConfig, TopicSpec
from tests.outside import FIXED

QUEUE = QueueSpec("q", QueueKeys.of("q"), QueueConfig(), outside=FIXED)
DELAY = messages.DelaySpec.plain("d", QueueConfig(), 1.0, FIXED)
TOPIC = TopicSpec("t", TopicKeys.of("t"), TopicConfig(), outside=FIXED)
RSMQ = RSMQSpec("r", outside=FIXED)
GROUP = membership.GroupSpec.of("g", 2, 10.0)
ID = "a" * 32


def _held() -> Message:
    return Message("q", b"a", b"{}", 1, 1)


def _delayed() -> messages.DelayedMessage:
    return messages.DelayedMessage("d", "a", b"{}", receipt=1)


def _unfinished() -> UnfinishedCommits:
    found = UnfinishedCommits("t")
    found._next_check = math.inf  # it has just looked
    return found


#: Reads, settles with a receipt, and whatever has the same effect twice as once.
HARMLESS: list[tuple[Any, ...]] = [
    (inspection.stats, QUEUE),
    (inspection.oldest_ready, QUEUE),
    (inspection.counters, QUEUE, 5.0),
    (inspection.pause, QUEUE),
    (inspection.resume, QUEUE),
    (inspection.audit, QUEUE, False),
    (inspection.peek, QUEUE, 5, "ready", 0),
    (inspection.dead_letters, QUEUE, 5, ()),
    (settle.ack, QUEUE, [_held()], None),
    (settle.ack_id, QUEUE, ["a"]),
    (settle.nack, QUEUE, [_held()], None),
    (settle.reject, QUEUE, [_held()], "r"),
    (settle.extend, QUEUE, [_held()], None),
    (push.push, QUEUE, {"id": "a"}, PushOptions(dedup="marker")),
    (admin.stats, DELAY),
    (admin.counters, DELAY, 5.0),
    (admin.dead_letters, DELAY, 5, None, None),
    (peek.peek, DELAY, 5, "ready"),
    (delay_settle.delete, DELAY, [_delayed()]),
    (delay_settle.nack, DELAY, [_delayed()], None),
    (delay_settle.reject, DELAY, [_delayed()], "r"),
    (delay_settle.extend, DELAY, [_delayed()], None),
    (delay_push.reschedule, DELAY, "a", 5, None, None, None, None),
    (place.subscribe, TOPIC, "c", "oldest"),
    (place.seek, TOPIC, "c", "oldest"),
    (place.unsubscribe, TOPIC, "c"),
    (place.position, TOPIC, "c"),
    (place.lag, TOPIC, "c"),
    (place.newest, TOPIC),
    (place.oldest, TOPIC),
    (publish.trim, TOPIC, 5),
    (publish.publish, TOPIC, {}, "marker", 60.0, None),
    (topic_settle.commit, TOPIC, [Batch("t", "c", 1, 1, receipt=b"x")]),
    (topic_settle.extend, TOPIC, [Batch("t", "c", 1, 1, receipt=b"x")], None),
    (rsmq.list_queues, RSMQ),
    (rsmq.counters, RSMQ, "j"),
    (rsmq.delete_messages, RSMQ, "j", [ID]),
    (rsmq.change_message_visibility, RSMQ, "j", ID, 5),
    (rsmq.dead_letters, RSMQ, "j", 5, None),
    (membership.heartbeat, GROUP, membership.Session("me")),
]
#: A second one would store, take or move other messages, or count what the first one did as undone.
HARMFUL: list[tuple[Any, ...]] = [
    (push.push, QUEUE, {"id": "a"}, PushOptions()),
    (push.push, QUEUE, {"id": "a"}, PushOptions(delay=5.0)),
    (take.pop_many, QUEUE, 1, None, None, ()),
    (inspection.redrive, QUEUE, 5, ()),
    (delay_push.cancel, DELAY, ["a"], None, False),
    (delay_take.take, DELAY, 1, None, None, None, _unfinished()),
    (publish.publish, TOPIC, {}, None, 60.0, None),
    (consume.consume, TOPIC, "c", 1, None, None, (), _unfinished()),
    (rsmq.send_message, RSMQ, "j", "body", None),
    (rsmq.receive_messages, RSMQ, "j", 1, None, None, "hide"),
]


#: Their first commands work on keys of any type.
OF_ANY_TYPE = {
    inspection.pause,
    inspection.resume,
    place.unsubscribe,
    place.position,
    place.lag,
    place.newest,
    place.oldest,
    place.subscribe,
    place.seek,
}


def _name(case: Any) -> str | None:
    return f"{case[0].__module__}.{case[0].__name__}" if type(case) is tuple else None


@pytest.mark.parametrize(
    ("case", "harmless"),
    [*((case, True) for case in HARMLESS), *((case, False) for case in HARMFUL)],
    ids=_name,
)
def test_a_request_is_resent_only_where_that_does_no_harm(
    case: tuple[Any, ...], harmless: bool
) -> None:
    steps, request = _begun(case)
    assert request.resend is harmless
    assert (request.script is None) is isinstance(request.args[0], bytes)
    assert all(isinstance(each, bytes | str | int | float) for each in request.command())
    steps.close()


@pytest.mark.parametrize(
    "case", [each for each in HARMLESS + HARMFUL if each[0] not in OF_ANY_TYPE], ids=_name
)
def test_a_key_of_another_type_is_named(case: tuple[Any, ...]) -> None:
    steps, _ = _begun(case)
    found = steps.throw(ResponseError("WRONGTYPE Operation against a key"))
    with pytest.raises(KeyTypeError, match="is a stranger"):  # noqa: PT012
        while isinstance(found, Request) and found.args[0] == b"TYPE":
            found = steps.send(b"stranger")


#: The answers where there is no record.
_NOTHING: dict[Any, Any] = {b"TYPE": b"none", b"HGETALL": []}


def _begun(case: tuple[Any, ...]) -> tuple[Operation[Any], Request]:
    """Return an operation and its first request that is no check of the queue's end."""
    operation, *args = case
    steps = operation(*args)
    found = next(steps)
    while isinstance(found, Clock) or found.args[0] in _NOTHING:
        found = steps.send(-1.0 if isinstance(found, Clock) else _NOTHING[found.args[0]])
    return steps, found


def test_the_types_of_keys_are_named_as_redis_does() -> None:
    known = {"string", "list", "set", "zset", "hash", "stream"}
    for keys in (
        QueueKeys.of("q"),
        QueueKeys.of("q", "left"),
        TopicKeys.of("t"),
        RSMQ.keys("j"),
        StagingKeys.of_queue("q"),
    ):
        assert set(keys.types().values()) <= known, keys
