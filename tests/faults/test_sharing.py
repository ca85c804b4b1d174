"""One queue object used by threads, by both sides of a fork, and by many processes at once."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import redis

import ackq
from ackq.embedded import Server
from ackq.queue.keys import QueueKeys

from .children import end, start
from .roles import hold_briefly, read_log, use_on_both_sides_of_a_fork

MakeQueue = Callable[..., ackq.Queue]


def test_threads_share_a_queue_and_each_message_is_handled_once(
    queue: ackq.Queue, client: redis.Redis
) -> None:
    handled: Counter[str] = Counter()
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            own = {queue.push({"id": f"{number}-{n}", "by": number}) for n in range(60)}
            assert own == {f"{number}-{n}" for n in range(60)}, "another thread's reply"
            done: list[ackq.Message] = []
            while done := queue.pop_many(3, timeout=0.2, ack=done):
                for message in done:
                    assert message.json()["id"] == message.id
                    handled[message.id] += 1
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(handled) == 480
    assert set(handled.values()) == {1}
    assert set(client.keys("jobs*")) <= {QueueKeys.of("jobs").looks}  # that one expires


def test_a_queue_works_on_both_sides_of_a_fork(
    server: Server, client: redis.Redis, journal: Path, queue_at: MakeQueue
) -> None:
    process = start(use_on_both_sides_of_a_fork, server.url, "jobs", journal)
    process.join(30)
    assert process.exitcode == 0
    rows = {event["side"]: event for event in read_log(journal)}
    assert rows["first child"]["connected"] == 1, "it used its parent's socket"
    for side in ("parent", "child"):
        assert rows[side]["pushed"] == [f"{side}-{number}" for number in range(100)]
        assert rows[side]["crossed"] == 0
    taken = rows["parent"]["taken"] + rows["child"]["taken"]
    assert len(taken) == len(set(taken))
    left = queue_at(server.url).pop_many(1000)
    assert len(taken) + len(left) == 201


def test_two_leases_on_a_message_are_never_valid_at_once(
    server: Server, client: redis.Redis, journal: Path, queue: ackq.Queue
) -> None:
    queue.push_many([{"id": str(number)} for number in range(6)])
    processes = [start(hold_briefly, server.url, "jobs", journal, seed) for seed in range(4)]
    try:
        for process in processes:
            process.join(30)
            assert process.exitcode == 0
    finally:
        for process in processes:
            end(process)
    events = sorted(read_log(journal), key=lambda each: (each["id"], each["count"]))
    accepted = sum(event["accepted"] for event in events)
    for earlier, later in itertools.pairwise(events):
        if earlier["id"] == later["id"]:
            assert later["count"] == earlier["count"] + 1
            # Times are the server's. The receipt is later than the end asked for, by the jitter.
            assert later["receipt"] - later["lease"] >= earlier["ends"] - 1
    assert len(events) > 20
    assert 0 < accepted < len(events), "either no extend came too late, or all did"
