"""Operators and consumers who want the same delayed messages at the same moment."""

import random
import threading
from collections import Counter

import redis

from ackq import Queue
from ackq.core.counters import MAX_WATCH

COUNT = 300


def test_a_message_that_falls_due_while_it_is_canceled_is_delivered_or_dead_but_never_both(
    plain_client: redis.Redis, name: str
) -> None:
    delivered = Counter[str]()
    done = {"run": 0, "canceled": 0}
    with Queue(plain_client, name) as queue:
        queue.counters(MAX_WATCH)
        for number in range(COUNT):
            queue.push({"id": str(number)}, delay=0.05 + number / 1000)
        entries = [each.entry for each in queue.peek(COUNT, "delayed")]

        def consume() -> None:
            with Queue(plain_client, name) as consumer:
                while operator.is_alive() or (left := consumer.stats()).ready or left.delayed:
                    for message in consumer.pop_many(3, timeout=0.05):
                        delivered[message.id] += 1
                        consumer.ack(message)

        def operate() -> None:
            draw = random.Random(1)
            with Queue(plain_client, name) as operator:
                for entry in entries:
                    if draw.random() < 0.2:
                        done["run"] += operator.run_now(entry, *draw.sample(entries, 3))
                    else:
                        done["canceled"] += operator.cancel(entry)

        operator = threading.Thread(target=operate)
        consumer = threading.Thread(target=consume)
        for thread in (operator, consumer):
            thread.start()
        for thread in (operator, consumer):
            thread.join(20)
        dead = Counter(letter.id for letter in queue.dead_letters(COUNT))
        assert delivered.total() > 10
        assert dead.total() == done["canceled"] > 10
        assert done["run"] > 10
        assert delivered + dead == Counter(str(number) for number in range(COUNT))
        found = queue.counters()
        assert (found.pushed, found.taken, found.acked) == (COUNT, *[delivered.total()] * 2)
        assert (found.dead, found.dropped) == ({"canceled": dead.total()}, 0)
        assert queue.audit().findings == ()
