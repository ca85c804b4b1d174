"""One release leaves work, and the other finishes it. Each runs in its own process.

The functions that both releases call use only names that both have.
"""

from contextlib import ExitStack
from typing import Any

from ackq import Queue
from ackq.delay import DelayQueue
from ackq.queue import Claims, Staged, Staging
from ackq.rsmq import RSMQ
from ackq.topic import Topic

#: Seconds of a lease that is to end, and of a delay.
SOON = 0.05


def leave(url: str, name: str) -> None:
    """Leave messages in every state: leased, expired, returned, delayed, dead, claimed, staged."""
    with ExitStack() as stack:
        queue = stack.enter_context(Queue.from_url(url, name))
        ids = ["extended", "nacked", "released", "rejected", "expired"]
        queue.push_many([{"id": message_id} for message_id in ids])
        extended, nacked, released, rejected = queue.pop_many(4)
        queue.pop(visibility_timeout=0.001)
        queue.extend(extended, timeout=SOON)
        queue.nack(nacked, delay=SOON)
        queue.release(released)
        queue.reject(rejected, reason="too large")
        queue.push({"id": "delayed"}, delay=SOON)
        queue.push({"id": "unique"}, dedup="marker")
        queue.push(b"not json")
        staging = stack.enter_context(Staging.from_url(url, name, "writer"))
        rows = Staged("task")
        staging.stage(1, rows, [b'{"id":"staged"}'])
        staging.commit(1, [rows])
        claims = _claims(stack, url, name)
        claims.begin()
        _claimed(stack, url, name).push_many([{"id": "claimed-1"}, {"id": "claimed-2"}])
        claims.claim(0, messages=10)
        delay = stack.enter_context(DelayQueue.from_url(url, f"{name}-delay"))
        delay.push("leased", {"n": 1})
        delay.take(visibility_timeout=SOON)
        delay.push("later", {"n": 2}, delay=SOON)
        topic = stack.enter_context(Topic.from_url(url, f"{name}-topic"))
        topic.publish_many([{"n": n} for n in range(4)])
        topic.subscribe("reader")
        topic.commit(topic.consume("reader", 2))
        topic.consume("reader", 1, visibility_timeout=SOON)
        rsmq = stack.enter_context(RSMQ.from_url(url, f"{name}-rsmq"))
        rsmq.create_queue("mail")
        rsmq.send_messages("mail", ["one", "two"])
        rsmq.receive_message("mail", vt=0)


def take_over(url: str, name: str) -> dict[str, Any]:
    """Finish everything that `leave` left, and return what was found."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        queue = stack.enter_context(Queue.from_url(url, name))
        found["findings"] = [finding.problem for finding in queue.audit().findings]
        found["dead"] = [(letter.body.decode(), letter.reason) for letter in queue.dead_letters()]
        queue.redrive()
        found["pushed twice"] = queue.push({"id": "another"}, dedup="marker")
        found["deliveries"] = {}
        while messages := queue.pop_many(100, timeout=4 * SOON):
            for message in messages:
                found["deliveries"][message.body.decode()] = message.receive_count
            queue.ack(*messages)
        found["committed"] = stack.enter_context(Staging.from_url(url, name, "writer")).committed()
        claims = _claims(stack, url, name)
        found["epoch"] = claims.begin()
        found["claims"] = [(each.batch, each.rows) for each in claims.open()]
        found["claimed"] = [body.decode() for body in claims.read(1, 0, 2)]
        found["acked"] = claims.ack(1)
        delay = stack.enter_context(DelayQueue.from_url(url, f"{name}-delay"))
        found["delay"] = {}
        while due := delay.take(10, timeout=4 * SOON):
            found["delay"] |= {each.key: each.receive_count for each in due}
            delay.delete(*due)
        topic = stack.enter_context(Topic.from_url(url, f"{name}-topic"))
        found["read"] = []
        while batch := topic.consume("reader", 10, timeout=4 * SOON):
            found["read"] += [message.json()["n"] for message in batch]
            topic.commit(batch)
        rsmq = stack.enter_context(RSMQ.from_url(url, f"{name}-rsmq"))
        found["mail"] = {str(each.message): each.rc for each in rsmq.receive_messages("mail", 10)}
    return found


def _claims(stack: ExitStack, url: str, name: str) -> Claims:
    return stack.enter_context(Claims.from_url(url, f"{name}-claimed", "group"))


def _claimed(stack: ExitStack, url: str, name: str) -> Queue:
    return stack.enter_context(Queue.from_url(url, f"{name}-claimed"))
