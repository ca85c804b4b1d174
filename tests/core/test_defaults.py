"""The default of every argument is the one that its docstring names."""

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis.asyncio

import ackq
import ackq.dropin.asyncio
from ackq.delay import (
    AsyncDelayQueue,
    AsyncPartitionedDelayQueue,
    DelayQueue,
    PartitionedDelayQueue,
)
from ackq.queue.staging_client import Staging
from ackq.rsmq import RSMQ, AsyncRSMQ
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.tasks import AsyncTasks, Later, Tasks
from ackq.tasks.tasks import TasksWorker
from ackq.tasks.tasks_async import AsyncTasksWorker
from ackq.topic import AsyncTopic, Topic
from ackq.worker import AsyncWorker, Health, Release, Worker
from tests.core import calls
from tests.traces import stored

CLASSES: list[type] = [
    ackq.Queue,
    ackq.AsyncQueue,
    DelayQueue,
    AsyncDelayQueue,
    AsyncPartitionedDelayQueue,
    Topic,
    AsyncTopic,
    RSMQ,
    AsyncRSMQ,
    ShardedQueue,
    AsyncShardedQueue,
    Worker,
    AsyncWorker,
    Tasks,
    AsyncTasks,
    ackq.dropin.Redis,
    ackq.dropin.asyncio.Redis,
    Staging,
]
#: An argument's description, up to the next one.
ARGUMENT = re.compile(r"^ {4}(\w+): (.*?)(?=^ {4}\S|^\S|\Z)", re.DOTALL | re.MULTILINE)
DEFAULT = re.compile(r"Defaults\s+to\s+(None|True|False|\"[^\"]*\"|[\d.]+(?:\sMiB)?)(?:[,.: ]|$)")


def _documented(function: Any) -> Iterator[tuple[str, Any]]:
    for name, text in ARGUMENT.findall(inspect.getdoc(function) or ""):
        if found := DEFAULT.search(text):
            number, _, unit = found[1].rstrip(".").partition(" ")
            yield name, ast.literal_eval(number) * 1024 * 1024 if unit else ast.literal_eval(number)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_defaults_are_as_documented(kind: type) -> None:
    compared = 0
    for name, function in inspect.getmembers(kind, inspect.isroutine):
        if name.startswith("_") and name != "__init__":
            continue
        parameters = inspect.signature(function).parameters
        for argument, default in _documented(function):
            if argument in parameters:
                assert parameters[argument].default == default, f"{name}({argument})"
                compared += 1
    assert compared


@pytest.mark.parametrize("kind", [Health, Release, Later])
def test_defaults_of_a_class_are_as_its_docstring_says(kind: type) -> None:
    parameters = inspect.signature(kind).parameters
    documented = dict(_documented(kind))
    assert {name: parameters[name].default for name in documented} == documented
    assert documented


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_client_made_from_a_url_has_the_same_defaults(kind: Any) -> None:
    if (from_url := getattr(kind, "from_url", None)) is None:
        return
    made, direct = (inspect.signature(each).parameters for each in (from_url, kind.__init__))
    shared = [name for name in made if name in direct and name not in ("args", "settings")]
    assert {name: made[name].default for name in shared} == {
        name: direct[name].default for name in shared
    }


def test_a_worker_of_tasks_runs_with_the_defaults_of_other_workers() -> None:
    assert inspect.signature(AsyncTasksWorker.run) == inspect.signature(AsyncWorker.run)
    assert inspect.signature(TasksWorker.run) == inspect.signature(Worker.run)


@pytest.mark.parametrize("title", calls.TITLES)
def test_every_method_runs_its_operation_with_its_arguments_and_defaults(title: str) -> None:
    known = stored(calls.FILE)
    assert list(known) == calls.TITLES
    assert calls.trace(title) == known[title]


def test_a_consumer_of_partitions_joins_and_leaves() -> None:
    async def main() -> None:
        queue: Any = AsyncPartitionedDelayQueue(redis.asyncio.Redis(), "d", 4)
        queue._members = members = calls.Members()
        assert queue.assigned == (1, 2)
        assert await queue.join() == (1, 2)
        assert await queue._join() == "the session"
        assert (members.joined, members.left) == (2, 0)
        await queue.aclose()
        assert (members.joined, members.left) == (2, 1)

    asyncio.run(main())


def test_the_settings_of_a_delay_queue_reach_its_operations() -> None:
    settings: dict[str, Any] = {
        "visibility_timeout": 9.0,
        "max_receives": 3,
        "max_body_bytes": 77,
        "record_errors": "type",
    }
    url = "redis://127.0.0.1:7777/3?socket_timeout=1.5"
    for kind, extra in (
        (DelayQueue, ()),
        (AsyncDelayQueue, ()),
        (PartitionedDelayQueue, (5,)),
        (AsyncPartitionedDelayQueue, (5,)),
    ):
        made: Any = kind
        more = {"session_timeout": 7.0} if extra else {}
        queue = made.from_url(url, "d", *extra, **settings, **more)
        spec = queue._spec
        assert {name: getattr(spec.config, name) for name in settings} == settings
        assert (spec.name, spec.block_limit, queue.address) == ("d", 0.75, "127.0.0.1:7777/3")
        assert len(spec.partitions) == (5 if extra else 1)
        if extra:
            group = queue._members._spec
            assert group == spec.group
            assert (group.name, group.partitions, group.session_us) == ("d", 5, 7_000_000)
