"""`drain` of tasks, and tasks that are called inline."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.errors import ConfigurationError, InvalidArguments
from ackq.tasks import AsyncTasks, Reject, Tasks
from ackq.testing import assert_pushed, drain
from tests.facade import Portal


@contextlib.contextmanager
def state() -> Iterator[list[str]]:
    yield ["in the lifespan"]


@pytest.mark.parametrize("kind", [Tasks, AsyncTasks])
def test_drain_handles_every_queue_of_the_tasks_within_their_lifespan(
    kind: Any, url: str, token: str, portal: Portal
) -> None:
    def call(function: Any, *args: Any, **settings: Any) -> Any:
        if kind is Tasks:
            return function(*args, **settings)
        return portal.call(function, *args, **settings)

    tasks: Tasks = call(kind, url, queue=token, lifespan=state)
    seen: list[tuple[str, Any]] = []

    @tasks.task(name="first")
    def first(n: int) -> None:
        seen.append(("first", tasks.state))

    @tasks.task(name="second", queue=f"{token}:second")
    async def second(n: int) -> None:
        seen.append(("second", tasks.state))
        raise Reject("enough")

    call(first.push, 1)
    call(second.options(delay=60).push, 2)
    with Queue.from_url(url, token) as queue, Queue.from_url(url, f"{token}:second") as other:
        assert_pushed(queue, {"task": "first", "args": {"n": 1}}, count=1)
        handled = call(drain, tasks)
        assert [message.task for message in handled] == ["first", "second"]
        assert seen == [("first", ["in the lifespan"]), ("second", ["in the lifespan"])]
        assert [dead.reason for dead in other.dead_letters()] == ["enough"]
    call(getattr(tasks, "aclose", None) or tasks.close)


def test_inline_pushes_call_the_task_here_and_now() -> None:
    tasks = Tasks("redis://127.0.0.1:1", lifespan=state)  # where no server runs
    calls: list[Any] = []

    @tasks.task
    def resize(path: str, width: int = 80) -> None:
        calls.append((path, width, tasks.state))
        if width == 0:
            raise ValueError("no width")
        if width < 0:
            raise Reject("never")

    @tasks.middleware
    def around(message: Any, call: Any) -> Any:
        calls.append(message.task)
        return call()

    with tasks.inline():
        pushed = resize.options(delay=60, id="a-1").push("a.png", width=40)
        assert (pushed, pushed.stored) == ("a-1", True)
        with pytest.raises(ValueError, match="no width"):
            resize.push("a.png", 0)
        with pytest.raises(Reject):
            resize.push("a.png", -1)
        with pytest.raises(InvalidArguments):
            resize.push("a.png", width="wide")  # type: ignore[arg-type]
    assert calls[:2] == [resize.name, ("a.png", 40, ["in the lifespan"])]
    with pytest.raises(redis.ConnectionError, match="refused"):
        resize.push("a.png")


def test_a_queue_needs_a_handler(queue: Queue) -> None:
    with pytest.raises(ConfigurationError, match="pass the handler"):
        drain(queue)  # type: ignore[call-overload]
