"""`ackq.tasks`: functions in threads, whose arguments are checked."""

import counting

from ackq.tasks import Tasks

tasks = Tasks(counting.URL, queue="benchmark")


@tasks.task(name="handle")
def handle(n: int, payload: str) -> None:
    counting.work()


bodies = [{"n": n, "payload": counting.PAYLOAD} for n in range(counting.MESSAGES)]
tasks.queue().push_many([{"task": "handle", "args": body} for body in bodies])
tasks.run(concurrency=counting.CONCURRENCY)
