"""The queue of a drop-in test, seen from outside."""

import threading
from collections.abc import Callable

import ackq

#: Seconds; short, so that what was lost comes back within the test.
LEASE = 0.6


def in_flight(queue: ackq.Queue) -> list[bytes]:
    return sorted(message.body for message in queue.peek(100, "in_flight"))


def come_back(queue: ackq.Queue) -> bytes:
    message = queue.pop(timeout=10 * LEASE)
    assert message is not None
    queue.ack(message)
    assert message.receive_count == 2
    return message.body


def settled(queue: ackq.Queue) -> bool:
    stats = queue.stats()
    return (stats.ready, stats.in_flight) == (0, 0)


def run_in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
