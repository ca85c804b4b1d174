"""ackq's `Worker`: handlers in threads."""

import counting

from ackq import Message, Queue
from ackq.worker import Worker


def handle(message: Message) -> None:
    message.json()  # since the peers decode their arguments
    counting.work()


queue = Queue.from_url(counting.URL, "benchmark")
queue.push_many([{"n": n, "payload": counting.PAYLOAD} for n in range(counting.MESSAGES)])
Worker(queue, handle, concurrency=counting.CONCURRENCY).run()
