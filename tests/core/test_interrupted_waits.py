"""A failover or a resharding ends waits with an UNBLOCKED error: the consumer waits on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

import ackq
from ackq.delay import DelayQueue
from ackq.rsmq import RSMQ
from ackq.topic import Topic
from tests.waiting import wait_until

Take = Callable[[], Any]


def list_queue(client: redis.Redis, name: str) -> tuple[Take, Take]:
    queue = ackq.Queue(client, name)
    return lambda: queue.pop(timeout=20), lambda: queue.push({"id": "a"})


def delay_queue(client: redis.Redis, name: str) -> tuple[Take, Take]:
    queue = DelayQueue(client, name)
    return lambda: queue.take(1, timeout=20), lambda: queue.push("a", "x")


def topic(client: redis.Redis, name: str) -> tuple[Take, Take]:
    topic = Topic(client, name)
    topic.subscribe("me")
    return lambda: topic.consume("me", 1, timeout=20), lambda: topic.publish({"n": 1})


def rsmq(client: redis.Redis, name: str) -> tuple[Take, Take]:
    queues = RSMQ(client, ns=name)
    queues.create_queue("q")
    return (
        lambda: queues.receive_message("q", timeout=20),
        lambda: queues.send_message("q", "x"),
    )


@pytest.mark.parametrize("make", [list_queue, delay_queue, topic, rsmq])
def test_an_interrupted_wait_goes_on(
    make: Callable[[redis.Redis, str], tuple[Take, Take]], plain_client: redis.Redis, name: str
) -> None:
    take, push = make(plain_client, name)

    def interrupted() -> bool:
        return any(
            plain_client.client_unblock(int(each["id"]), error=True)
            for each in plain_client.client_list()
            if "b" in each["flags"]
        )

    with ThreadPoolExecutor(1) as threads:
        taken = threads.submit(take)
        wait_until(interrupted, "a consumer that waits")
        push()
        assert taken.result(30)
