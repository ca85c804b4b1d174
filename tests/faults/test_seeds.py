"""Receipts of two processes differ, even if both seeded `random` alike."""

import json
import subprocess
import sys

#: Prints, by operation, what its first request carries: four draws of each.
CHILD = """
import json, random
random.seed(7)
from unittest.mock import Mock
from ackq import Message
from ackq.delay import DelayedMessage
from ackq.delay import DelayQueue, settle as delay_settle, take as delay_take
from ackq.queue import Queue, settle, take
from ackq.topic import Topic, consume
import redis

client = redis.Redis(port=1)
queue = Queue(client, "jobs")._spec
delay = DelayQueue(client, "later")._spec
topic = Topic(client, "news")._spec
held = Message("jobs", b"a", b"{}", 7, 1)
later = DelayedMessage("later", "a", b"{}", receipt=7)
none = Mock(move_in=lambda move: iter(()))
operations = {
    "pop": lambda: take.pop_many(queue, 1, None, None, ()),
    "extend": lambda: settle.extend(queue, [held], 5),
    "delay take": lambda: delay_take.take(delay, 1, None, None, None, none),
    "delay extend": lambda: delay_settle.extend(delay, [later], 5),
    "topic consume": lambda: consume.consume(topic, "c", 1, None, None, (), none),
}
print(json.dumps({
    name: [str(next(begin()).args) for _ in range(4)] for name, begin in operations.items()
}))
"""

#: Forks after the first draw; each process prints its next four.
FORK = """
import os
from ackq.core.io.outside import SYSTEM

SYSTEM.jitter()
child = os.fork()
if child:
    os.waitpid(child, 0)
print(*[SYSTEM.jitter() for _ in range(4)], flush=True)
"""


def test_processes_that_seed_random_alike_draw_different_receipts() -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    one, other = (json.loads(child.communicate(timeout=30)[0]) for child in children)
    assert len(one) == 5
    alike = [name for name in one if one[name] == other[name]]
    assert alike == []


def test_a_forked_child_draws_different_receipts() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    child, parent = done.stdout.splitlines()
    assert child != parent
