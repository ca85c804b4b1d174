"""A queue of every kind with the same messages: two ready, one in flight, one delayed, three dead.

The dead letters died of errors: a KeyError twice, and a ValueError. To add a kind, write a context
manager that yields its `Stock`, and add it to `STOCKS`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from ackq import Queue
from ackq.config import PopFrom
from ackq.delay import DelayQueue, PartitionedDelayQueue
from ackq.membership.shards import shard_names
from ackq.ops.kinds import KINDS
from ackq.ops.kinds.kind import Verb
from ackq.rsmq import RSMQ
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from tests.servers import Client

ERRORS: dict[str, Exception] = {"a": KeyError("1"), "b": KeyError("2"), "c": ValueError("3")}
REASON = "no good"
#: Shards or partitions of a queue that has some.
PARTS = 3


@dataclass(frozen=True)
class Stock:
    """A queue that is stocked."""

    kind: str
    name: str
    #: The ids of the dead letters, with the errors that they died of.
    dead: Mapping[str, str]
    #: The names of its shards or partitions, if it has some.
    parts: tuple[str, ...] = ()
    reason: str = REASON
    #: What the consumers of a topic have to read.
    lags: Mapping[str, int] = field(default_factory=dict)
    #: The states in which messages are found, by their ids.
    found: Mapping[str, str] = field(
        default_factory=lambda: {
            "held": "in_flight",
            "r1": "ready",
            "r2": "ready",
            "later": "delayed",
        }
    )
    #: What the figures call its states.
    states: Mapping[str, int] = field(
        default_factory=lambda: {"ready": 2, "in_flight": 1, "delayed": 1, "dead": 3}
    )

    @property
    def backlog(self) -> int:
        """The messages that need a consumer now."""
        waiting = sum(self.states.get(each, 0) for each in ("ready", "in_flight", "hidden"))
        return waiting + max(self.lags.values(), default=0)


_IDS = {id: type(error).__name__ for id, error in ERRORS.items()}


def _stock_list(queue: Queue) -> None:
    queue.push_many([{"id": each} for each in [*ERRORS, "held", "r1", "r2"]])
    for message, error in zip(queue.pop_many(3), ERRORS.values(), strict=True):
        queue.reject(message, reason=REASON, error=error)
    queue.pop(visibility_timeout=600)
    queue.push({"id": "later"}, delay=600)


@contextmanager
def a_list(client: Client, name: str, pop_from: PopFrom = "right") -> Iterator[Stock]:
    with Queue(client, name, pop_from=pop_from) as queue:
        _stock_list(queue)
        yield Stock("list", name, _IDS)


def a_left_list(client: Client, name: str) -> AbstractContextManager[Stock]:
    return a_list(client, name, "left")


@contextmanager
def a_sharded_queue(client: Client, name: str) -> Iterator[Stock]:
    with ShardedQueue(client, name, PARTS) as queue:
        for id, error in ERRORS.items():
            queue.push({"id": id})
            for shard in queue.shards():
                for message in shard.pop_many(1):
                    shard.reject(message, reason=REASON, error=error)
        queue.push({"id": "held"})
        assert sum(len(each.pop_many(1, visibility_timeout=600)) for each in queue.shards()) == 1
        queue.push({"id": "r1"})
        queue.push({"id": "r2"})
        queue.push({"id": "later"}, delay=600)
        queue.join()
        yield Stock("sharded", name, _IDS, shard_names(name, PARTS))


@contextmanager
def a_delay_queue(client: Client, name: str) -> Iterator[Stock]:
    with DelayQueue(client, name, visibility_timeout=600) as queue:
        _stock_delay(queue)
        yield Stock("delay", name, _IDS)


@contextmanager
def a_partitioned_queue(client: Client, name: str) -> Iterator[Stock]:
    with PartitionedDelayQueue(client, name, PARTS, visibility_timeout=600) as queue:
        _stock_delay(queue)
        yield Stock("delay", name, _IDS, tuple(f"{name}:{number}" for number in range(PARTS)))


def _stock_delay(queue: DelayQueue | PartitionedDelayQueue) -> None:
    for id, error in ERRORS.items():
        queue.push(id, b"body")
        queue.reject(*queue.take(1, timeout=5), reason=REASON, error=error)
    queue.push("held", b"body")
    assert queue.take(1, timeout=5)
    queue.push("r1", b"body")
    queue.push("r2", b"body")
    queue.push("later", b"body", delay=600)


@contextmanager
def an_rsmq_queue(client: Client, name: str) -> Iterator[Stock]:
    with RSMQ(client, name, max_receives=1) as rsmq:
        rsmq.create_queue("mails", vt=600)
        ids = {}
        for error in ERRORS.values():
            id = rsmq.send_message("mails", "body")
            assert rsmq.receive_message("mails")
            rsmq.change_message_visibility("mails", id, 0, error=error)
            assert rsmq.receive_message("mails") is None  # it died
            ids[id] = type(error).__name__
        found = {rsmq.send_message("mails", "held"): "in_flight"}
        assert rsmq.receive_message("mails")
        found |= dict.fromkeys(rsmq.send_messages("mails", ["r1", "r2"]), "ready")
        found[rsmq.send_message("mails", "later", delay=600)] = "delayed"
        # RSMQ does not tell messages in flight from delayed ones.
        states = {"ready": 2, "hidden": 2, "dead": 3}
        yield Stock(
            "rsmq", f"{name}:mails", ids, (), "received too often", found=found, states=states
        )


@contextmanager
def a_topic(client: Client, name: str) -> Iterator[Stock]:
    with Topic(client, name) as topic:
        topic.subscribe("billing", "end")
        topic.subscribe('o"dd\\name', "end")
        topic.publish_many([b"1", b"2", b"3"])
        topic.commit(topic.consume("billing", 1))
        yield Stock("topic", name, {}, states={}, lags={"billing": 2, 'o"dd\\name': 3})


STOCKS: dict[str, Callable[[Client, str], AbstractContextManager[Stock]]] = {
    "list": a_list,
    "left": a_left_list,
    "sharded": a_sharded_queue,
    "delay": a_delay_queue,
    "partitioned": a_partitioned_queue,
    "rsmq": an_rsmq_queue,
    "topic": a_topic,
}

#: The kind of each.
KIND_OF = {
    "list": "list",
    "left": "list",
    "sharded": "sharded",
    "delay": "delay",
    "partitioned": "delay",
    "rsmq": "rsmq",
    "topic": "topic",
}


def each_that_can(verb: Verb) -> pytest.MarkDecorator:
    """Return what runs a test with each stock of a kind that can do something."""
    able = [each for each, kind in KIND_OF.items() if verb in KINDS[kind].does]
    return pytest.mark.parametrize("stock", able, indirect=True)


def name_of(each: str, token: str) -> str:
    """Return a name for a stock that a cluster accepts."""
    return f"{token}{each}" if each == "sharded" else f"{{{token}}}{each}"


@contextmanager
def all_stocks(client: Client, token: str) -> Iterator[dict[str, Stock]]:
    """Make a queue of every kind, and yield their stocks."""
    with ExitStack() as stack:
        yield {
            each: stack.enter_context(make(client, name_of(each, token)))
            for each, make in STOCKS.items()
        }
