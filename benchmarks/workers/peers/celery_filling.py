"""Celery: fills a queue, or reserves tasks without acking them, as its standard input says."""

import random
import string
import sys

from celery import Celery

URL, ID_SIZE, SIZE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
app = Celery("benchmark", broker=URL)
app.conf.update(
    task_ignore_result=True,
    task_default_queue="q",
    broker_transport_options={"global_keyprefix": "ackq-benchmark:memory:"},
)
draw = random.Random(1)
numbers = iter(range(10**8))
held = []


def fill(count: int) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            name = f"{next(numbers):08x}" + "".join(draw.choices(string.hexdigits, k=ID_SIZE - 8))
            payload = "".join(draw.choices(string.ascii_letters, k=SIZE - 23 - ID_SIZE))
            body = ({"id": name, "payload": payload},)
            app.send_task("t", body, task_id=name, producer=producer)


def take(count: int) -> None:
    for _ in range(count):
        message = channel.basic_get("q")
        if message is None:
            raise SystemExit(f"{len(held)} tasks came")
        held.append(message)


connection = app.connection_for_read()
channel = connection.default_channel
for line in sys.stdin:
    what, number = line.split()
    (fill if what == "fill" else take)(int(number))
    print("done", flush=True)
held.clear()
