"""Send, receive and delete: ackq's RSMQ beside PyRSMQ, and how long a waiting consumer waits.

All contestants take turns in one process, on one server. Ratios are taken within a round. PyRSMQ
has no batches: its batch contestant sends, receives and deletes 100 messages one by one.
"""

import importlib.metadata
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import redis
from rsmq import RedisSMQ

from ackq.bench.figures import Measure, Result
from ackq.bench.messages import Messages
from ackq.bench.rounds import Player
from ackq.rsmq import RSMQ
from benchmarks.frame import Options, Settings, compare, facts
from benchmarks.servers import target

PURPOSE = "Send, receive and delete messages of 100 characters, beside PyRSMQ."
#: Messages in one batch.
BATCH = 100
NS = "ackq-benchmark"
#: Seconds; longer than any run.
LONG = 9_999_999


class Contestant(Player):
    """Sends, receives and deletes ``batch`` messages in a queue of its own, one connection."""

    def __init__(self, url: str, qname: str, messages: Messages, batch: int) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url, decode_responses=True)
        self.rsmq = RSMQ(self.client, NS)
        self.qname, self.text, self.batch = qname, orjson.dumps(messages.one()).decode(), batch
        self.clear()
        self.rsmq.create_queue(qname, vt=LONG)

    def clear(self) -> None:
        """Delete the queue."""
        keys = [f"{NS}:{self.qname}", f"{NS}:{self.qname}:Q"]
        self.client.delete(*keys)
        self.client.srem(f"{NS}:QUEUES", self.qname)

    def close(self) -> None:
        """Delete the queue and disconnect."""
        self.clear()
        self.rsmq.close()
        self.client.close()


class Ackq(Contestant):
    """ackq, one by one."""

    def cycle(self) -> int:
        self.rsmq.send_message(self.qname, self.text)
        message = self.rsmq.receive_message(self.qname)
        return int(message is not None and self.rsmq.delete_message(self.qname, message.id))


class AckqBatch(Contestant):
    """ackq, in batches."""

    def cycle(self) -> int:
        self.rsmq.send_messages(self.qname, [self.text] * self.batch)
        messages = self.rsmq.receive_messages(self.qname, self.batch)
        return self.rsmq.delete_messages(self.qname, [message.id for message in messages])


class PyRSMQ(Contestant):
    """PyRSMQ: all sends, then all receives, then all deletes."""

    def __init__(self, url: str, qname: str, messages: Messages, batch: int) -> None:
        super().__init__(url, qname, messages, batch)
        self.peer = RedisSMQ(client=self.client, ns=NS, qname=qname)

    def cycle(self) -> int:
        for _ in range(self.batch):
            self.peer.sendMessage(message=self.text).execute()
        ids = [self.peer.receiveMessage().execute()["id"] for _ in range(self.batch)]
        return sum(self.peer.deleteMessage(id=id).execute() for id in ids)


#: Batch size, contestants, and the targets against PyRSMQ.
CASES: dict[str, tuple[int, dict[str, type[Contestant]], float]] = {
    "one by one": (1, {"ackq": Ackq, "PyRSMQ": PyRSMQ}, 2),
    f"by {BATCH}": (BATCH, {"ackq": AckqBatch, "PyRSMQ": PyRSMQ}, 10),
}


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 12, quick=4, smoke=2, help="with one turn for each contestant")
    options.size("seconds", 0.6, quick=0.15, smoke=0.02, help="of each turn")
    options.size("waits", 20, quick=5, smoke=1, help="for each sender")


def run(settings: Settings) -> Result:
    """Measure both one by one and in batches, and how long a waiting consumer waits."""
    with target(settings.url) as server:
        result = Result("rsmq", facts(server, settings))
        result.facts["versions"]["PyRSMQ"] = importlib.metadata.version("PyRSMQ")
        for case, (batch, makers, goal) in CASES.items():
            pair = [("ackq", "PyRSMQ")]
            compare(result, case, makers, server.url, batch, pair, settings, goal=goal, prefix="q")
        result.measures += [
            Measure("waiting", sender, "until received", "ms", tuple(times))
            for sender, times in waits(server.url, settings.waits).items()
        ]
        return result


def waits(url: str, count: int) -> dict[str, list[float]]:
    """Return the milliseconds from a send to the end of a blocking receive, by sender."""
    found: dict[str, list[float]] = {}
    with (
        redis.Redis.from_url(url, decode_responses=True) as client,
        RSMQ(client, NS) as sender,
        RSMQ(client, NS) as waiter,
        ThreadPoolExecutor(1) as pool,
    ):
        sender.create_queue("waits", vt=LONG)
        peer = RedisSMQ(client=client, ns=NS, qname="waits")
        senders: dict[str, Callable[[], Any]] = {
            "sent by ackq": lambda: sender.send_message("waits", "m"),
            "sent by PyRSMQ": lambda: peer.sendMessage(message="m").execute(),
        }
        for name, send in senders.items():
            found[name] = [_wait(client, waiter, pool, send) for _ in range(count)]
        sender.delete_queue("waits")
    return found


def _wait(
    client: redis.Redis, waiter: RSMQ, pool: ThreadPoolExecutor, send: Callable[[], Any]
) -> float:
    waiting = pool.submit(lambda: (waiter.pop_message("waits", timeout=30), time.perf_counter()))
    while not int(client.info("clients")["blocked_clients"]):
        time.sleep(0.001)
    time.sleep(random.random())  # at any moment of its wait
    sent_at = time.perf_counter()
    send()
    message, came_at = waiting.result()
    if message is None:
        raise AssertionError("the waiter missed a message")
    return (came_at - sent_at) * 1000
