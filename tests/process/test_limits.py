"""Processes that are killed because a handler is stuck, or replaced because they did enough."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ackq
from ackq.config import QueueConfig
from ackq.embedded import Server
from ackq.process.abandoned_messages import settle
from ackq.process.held_messages import (
    FAILED,
    FINISHED,
    RUNNING,
    WAITING,
    HeldBy,
    HeldMessages,
    Limits,
)
from ackq.process.retirement import resident
from ackq.sharded import ShardedQueue
from tests.waiting import wait_until
from tests.worker.conftest import settled

from .commands import working

JOBS = "tests.process.jobs:"
pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    "handler", ["stuck", pytest.param("stuck_async", marks=pytest.mark.campaign)]
)
def test_a_stuck_handler_is_killed_counted_once_and_its_neighbours_are_handled(
    tmp_path: Path, server: Server, queue: ackq.Queue, handler: str
) -> None:
    queue.push({"id": "stuck", "stuck": True, "seconds": 0})
    queue.push_many({"id": f"m{n}", "seconds": 0.02} for n in range(40))
    # The lease is so long that nothing comes back because of it.
    limits = ("--time-limit", "0.5", "--kill-after", "0.3", "--lease", "600")
    options = ("-q", queue.name, *limits, "--concurrency", "4")
    with working(tmp_path, server.url, JOBS + handler, *options) as command:
        wait_until(lambda: settled(queue), "all, the stuck one at its second delivery", 40)
        assert "did not end in time: killed" in command.log()
        ended = [event["id"] for event in command.events("end")]
        assert {*ended} == {"stuck", *(f"m{n}" for n in range(40))}
        counts = {event["id"]: event["count"] for event in command.events("end")}
        assert counts.pop("stuck") == 2
        assert {*counts.values()} == {1}
        assert len(command.children()) == 1


@pytest.mark.parametrize("sharded", [False, True], ids=["list", "sharded"])
def test_a_queue_that_is_known_by_name_has_the_groups_that_are_recorded(
    tmp_path: Path, server: Server, queue: ackq.Queue, sharded: bool
) -> None:
    """The process of a stuck handler is killed; then its group goes on where it was."""
    grouped: Any = queue.with_config(groups=ackq.Groups("of"))
    if sharded:
        grouped = ShardedQueue.from_url(server.url, queue.name, 2, groups=ackq.Groups("of"))
    assert grouped.pop() is None  # records the groups
    grouped.push({"id": "a1", "of": "a", "stuck": True, "seconds": 0})
    grouped.push_many({"id": f"{of}{n}", "of": of, "seconds": 0.02} for n in "2345" for of in "ab")
    limits = ("--time-limit", "0.5", "--kill-after", "0.3", "--lease", "600")
    with working(tmp_path, server.url, JOBS + "stuck", "-q", queue.name, *limits) as command:
        wait_until(lambda: settled(grouped), "all, the stuck one at its second delivery", 40)
        assert "did not end in time: killed" in command.log()
        ended = [event["id"] for event in command.events("end")]
    for of, numbers in (("a", "12345"), ("b", "2345")):
        assert [each for each in ended if each[0] == of] == [of + n for n in numbers]
    grouped.close()


def test_a_message_that_is_always_stuck_becomes_a_dead_letter_with_its_reason(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    queue.push({"id": "stuck", "stuck": True, "seconds": 0})
    limits = ("--time-limit", "0.3", "--kill-after", "0.1", "--max-receives", "1")
    with working(tmp_path, server.url, JOBS + "stuck", "-q", queue.name, *limits):
        wait_until(lambda: queue.stats().dead == 1, "a dead letter", 40)
    (dead,) = queue.dead_letters()
    assert dead.receive_count == 1
    assert "its process was killed" in dead.errors[-1].text


#: Settings under which a process gets messages: one by one, at once, in batches, of two queues.
TAKING = {
    "one by one": ("scripted", ("--concurrency", "1", "--prefetch", "0")),
    "threads": ("quick", ("--concurrency", "16")),
    "asyncio": ("quick_async", ("--concurrency", "16")),
    "batches": ("BATCHING", ()),
    "batches on asyncio": ("BATCHING_ASYNC", ()),
    "two queues": ("quick", ("-q", "{name}-b")),
}
#: The rows of the ordinary run.
QUICK = ("batches on asyncio", "two queues")


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=() if how in QUICK else pytest.mark.campaign) for how in TAKING],
)
def test_a_process_handles_its_number_of_messages_and_no_more(
    tmp_path: Path, server: Server, queue: ackq.Queue, how: str
) -> None:
    handler, more = TAKING[how]
    body = {"task": "batch", "args": {"items": 1}, "seconds": 0}
    queue.push_many(body | {"id": f"m{n}"} for n in range(150))
    options = ("-q", queue.name, *(each.format(name=queue.name) for each in more), "--lease", "60")
    with (
        ackq.Queue.from_url(server.url, f"{queue.name}-b") as other,
        working(
            tmp_path,
            server.url,
            JOBS + handler,
            *(*options, "--max-messages", "100", "--drain"),
            variables={"BATCHED": queue.name},
        ) as command,
    ):
        if how == "two queues":
            other.push_many(body | {"id": f"o{n}"} for n in range(40))
        assert command.wait(60) == 0
        assert settled(queue)
        assert settled(other)
        begun = command.events("begin")
        assert "starting another" in command.log()
    numbers = Counter(event["pid"] for event in begun)
    assert sorted(numbers.values()) == [90 if how == "two queues" else 50, 100]
    assert {event["count"] for event in begun} == {1}
    assert len({event["id"] for event in begun}) == len(begun)


def test_a_process_is_replaced_when_it_uses_too_much_memory(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    options = ("-q", queue.name, "--max-memory", "1")
    with working(tmp_path, server.url, JOBS + "quick", *options) as command:
        wait_until(lambda: command.log().count("MiB of memory in use") >= 2, "two processes", 40)
    assert 1 < resident() < 10_000


#: How tasks name their server.
SERVERS = {
    "url": "Tasks({url!r})",
    "client": "Tasks(redis.Redis.from_url({url!r}))",
    "sharded": "Tasks(ShardedQueue.from_url({url!r}, {name!r}, 2))",
    "asyncio": "AsyncTasks(redis.asyncio.Redis.from_url({url!r}))",
}
MODULE = """
import re
import redis, redis.asyncio
from ackq import Message
from ackq.sharded import ShardedQueue
from ackq.tasks import AsyncTasks, Tasks

tasks = {tasks}

@tasks.task(queue={name!r}, time_limit=0.3)
def job(message: Message) -> None:
    if message.receive_count == 1:
        re.match(r"(a+)+$", "a" * 60 + "b")
"""


@pytest.mark.parametrize(
    "how",
    [
        "url",
        "sharded",
        pytest.param("client", marks=pytest.mark.campaign),
        pytest.param("asyncio", marks=pytest.mark.campaign),
    ],
)
def test_a_stuck_task_is_settled_on_the_server_of_the_tasks(
    tmp_path: Path, server: Server, queue: ackq.Queue, how: str
) -> None:
    """Without --url, as documented. The embedded server has no part in it."""
    tasks = SERVERS[how].format(url=server.url, name=queue.name)
    (tmp_path / "jobs.py").write_text(MODULE.format(tasks=tasks, name=queue.name))
    taken: Any = queue
    if how == "sharded":
        taken = ShardedQueue.from_url(server.url, queue.name, 2)
    taken.push({"id": "stuck", "task": "jobs.job", "args": {}})
    home = tmp_path / "home"
    variables = {"ACKQ_REDIS_URL": "", "ACKQ_HOME": str(home)}
    options = ("--kill-after", "0.3", "--lease", "600")
    with working(
        tmp_path, server.url, "jobs:tasks", *options, cwd=tmp_path, variables=variables
    ) as command:
        wait_until(lambda: taken.stats().delayed == 1, "its retry", 40)
        assert "did not end in time: killed" in command.log()
        wait_until(lambda: settled(taken), "its second delivery", 40)
        command.process.terminate()
        assert command.wait() == 0
    assert not home.exists()
    taken.close()


#: What handlers did that ended just before.
AFTER = {"failed": "nack", "retried": "nack", "released": "release"}


def test_what_a_process_held_is_settled_by_what_became_of_it(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    """Also messages that are acked already, that others hold, and that were overwritten."""
    config = queue.config
    written = HeldMessages(tmp_path / "held", {queue.name: config}, (), 3, 2, Limits(0.0))
    queue.push_many(
        {"id": name} for name in ("over", "runs", "done", "waits", "acked", "other", *AFTER)
    )
    messages = {message.id: message for message in queue.pop_many(9)}
    written.taken(queue.name, list(messages.values()))
    written.before(messages["over"])
    for name in ("done", "acked", *AFTER):
        written.before(messages[name])
        written.after(messages[name], AFTER.get(name, "ack"), 0.0)
    queue.ack(messages["acked"])
    queue.nack(messages["retried"], delay=3600)
    written._limits = Limits(60.0)
    written.before(messages["runs"])
    queue.release(messages["other"])
    other = queue.pop()
    assert other is not None
    assert other.id == "other"
    held = HeldBy(tmp_path / "held")
    wait_until(lambda: held.overdue(os.getpid()), "the limit")
    overdue = held.overdue(os.getpid())
    states = {one.message.id: (one.state, one.overdue) for one in held.read(overdue)}
    assert states == {
        "over": (RUNNING, True),
        "runs": (RUNNING, False),
        "done": (FINISHED, False),
        "acked": (FINISHED, False),
        "waits": (WAITING, False),
        "other": (WAITING, False),
        "failed": (FAILED, True),
        "retried": (FAILED, True),
        "released": (WAITING, False),
    }
    settle(server.url, held.read(overdue))
    assert {message.id: bool(message.errors) for message in queue.peek(10, "delayed")} == {
        "over": True,
        "failed": False,
        "retried": False,
    }
    assert {message.id for message in queue.peek(10)} == {"runs", "waits", "released"}
    assert [message.id for message in queue.peek(10, "in_flight")] == ["other"]
    assert [message.receive_count for message in queue.pop_many(9)] == [1, 1, 1]


def test_the_places_of_running_messages_are_not_used_again(tmp_path: Path) -> None:
    written = HeldMessages(tmp_path / "held", {"q": QueueConfig()}, (), 1, 0, Limits(60.0))
    first = ackq.Message("q", b"first", b"", 1, 1)
    written.taken("q", [first])
    written.before(first)
    written.taken("q", [ackq.Message("q", b"%d" % n, b"", 2, 1) for n in range(3000)])
    keys = [one.message.key for one in HeldBy(tmp_path / "held").read(())]
    assert keys[0] == b"first"
    assert b"2999" in keys
    assert len(keys) == 1002


def test_a_file_that_is_not_written_yet_holds_nothing(tmp_path: Path) -> None:
    held = HeldBy(tmp_path / "held")
    for content in (None, b"", bytes(64)):
        if content is not None:
            held.file.write_bytes(content)
        assert held.overdue(os.getpid()) == set()
        assert held.read(()) == []


def test_a_place_is_free_while_another_message_overwrites_it(tmp_path: Path) -> None:
    """A process may be killed there: its parent must not read half of each."""
    written = HeldMessages(tmp_path / "held", {"q": QueueConfig()}, (), 1, 0, Limits(60.0))
    message = ackq.Message("q", b"first", b"", 1, 1)
    written.taken("q", [message])
    seen = []

    class Watched(dict[Any, Any]):
        """What the parent reads as each write begins."""

        def __init__(self, mapped: Any) -> None:
            self._mapped = mapped

        def __setitem__(self, place: Any, value: Any) -> None:
            self._mapped[place] = value
            seen.append([one.message.key for one in HeldBy(tmp_path / "held").read(())])

    mapped, written._next = written._map, 0
    written._map = Watched(mapped)  # type: ignore[assignment]
    with pytest.raises(TypeError):  # the record itself is packed into the map
        written.taken("q", [ackq.Message("q", b"other", b"", 2, 1)])
    assert seen == [[], []]
