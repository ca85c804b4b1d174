"""A queue of every kind, with known figures."""

from __future__ import annotations

import contextlib

import ackq
from ackq.delay import DelayQueue, PartitionedDelayQueue
from ackq.rsmq import RSMQ
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from tests.servers import Client

#: What `fill` leaves behind, by kind and the end of the name: backlog and counts by state.
EXPECTED = {
    ("list", ""): (4, {"ready": 3, "in_flight": 1, "delayed": 1, "dead": 1}),
    ("list", "left"): (2, {"ready": 1, "in_flight": 1, "delayed": 0, "dead": 0}),
    ("sharded", "sharded"): (8, {"ready": 4, "in_flight": 4, "delayed": 0, "dead": 0}),
    ("delay", "delay"): (2, {"ready": 1, "in_flight": 1, "delayed": 1, "dead": 0}),
    ("delay", "parts"): (4, {"ready": 4, "in_flight": 0, "delayed": 0, "dead": 0}),
    ("topic", "topic"): (3, {}),
    ("rsmq", "ns:mails"): (3, {"ready": 2, "hidden": 1, "dead": 0}),
}


def fill(client: Client, token: str) -> dict[tuple[str, str], tuple[int, dict[str, int]]]:
    """Make the queues, and return what is expected of them, by kind and name."""
    tag = f"{{{token}}}"
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(ackq.Queue(client, tag))
        plain.push_many([{"id": each} for each in "abcde"])
        plain.push({"id": "later"}, delay=600)
        plain.reject(*plain.pop_many(1))
        plain.pop(visibility_timeout=600)
        left = stack.enter_context(ackq.Queue(client, tag + "left", pop_from="left"))
        left.push_many([{"id": "a"}, {"id": "b"}])
        left.pop(visibility_timeout=600)
        sharded = stack.enter_context(ShardedQueue(client, token + "sharded", 4))
        for number in range(8):
            sharded.push({"id": str(number)})
        assert sharded.pop_many(1)  # joins the group
        for shard in sharded.shards():
            shard.release(*shard.pop_many(2))
            if not shard.stats().in_flight:
                shard.pop()
        delay = stack.enter_context(DelayQueue(client, tag + "delay"))
        delay.push("a", b"1")
        delay.push("b", b"2")
        delay.take()
        delay.push("later", b"3", delay=600)
        parts = stack.enter_context(PartitionedDelayQueue(client, tag + "parts", 2))
        parts.join()
        for each in "abcd":
            parts.push(each, b"1")
        topic = stack.enter_context(Topic(client, tag + "topic"))
        topic.subscribe("billing", "end")
        topic.subscribe('o"dd\\name', "end")
        topic.publish_many([b"1", b"2", b"3"])
        batch = topic.consume("billing", 1)
        topic.commit(batch)
        rsmq = stack.enter_context(RSMQ(client, tag + "ns"))
        rsmq.create_queue("mails")
        for each in ("one", "two", "three"):
            rsmq.send_message("mails", each)
        rsmq.receive_message("mails")
    prefix = {"sharded": token}
    return {
        (kind, prefix.get(kind, tag) + end): figures for (kind, end), figures in EXPECTED.items()
    }
