"""`drain` of tasks, and tasks that are called inline."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from ackq import Message, Queue
from ackq.errors import ConfigurationError, InvalidArguments
from ackq.tasks import AsyncTasks, Later, Reject, Tasks
from ackq.testing import assert_pushed, connected, drain
from ackq.worker.batch import Failed
from tests.facade import Portal


@contextlib.contextmanager
def state() -> Iterator[list[str]]:
    yield ["in the lifespan"]


def nothing() -> None:
    """Do nothing."""


def dump(client: redis.Redis) -> dict[bytes, Any]:
    """Return every key with its value."""
    return {key: client.dump(key) for key in client.scan_iter()}


class Both:
    """Tasks of one flavour for a server that must not be reached, and calls of their methods."""

    def __init__(self, kind: type, url: str, name: str, portal: Portal) -> None:
        self.call = portal.call if kind is AsyncTasks else lambda do, *args: do(*args)
        self.tasks: Tasks = kind(url, queue=name, lifespan=state)


@pytest.fixture(params=[Tasks, AsyncTasks])
def both(request: Any, url: str, token: str, portal: Portal) -> Iterator[Both]:
    both = Both(request.param, url, token, portal)
    yield both
    close: Any = getattr(both.tasks, "aclose", None) or both.tasks.close
    both.call(close)


def test_drain_handles_every_queue_of_the_tasks_within_their_lifespan(
    both: Both, token: str, kit_url: str
) -> None:
    tasks, call = both.tasks, both.call
    seen: list[Any] = []

    @tasks.task(name="first")
    def first(n: int) -> None:
        seen.append(("first", tasks.state))

    @tasks.task(name="second", queue=f"{token}:second")
    async def second(n: int) -> None:
        seen.append(("second", tasks.state))
        raise Reject("enough")

    @tasks.batch(size=3, name="third")
    def third(ns: list[int]) -> None:
        seen.append(ns)

    tasks.schedule(every=60, args={"n": 1})(first)
    with connected(tasks, url=kit_url) as prefix:
        call(first.push, 1)
        call(second.options(delay=60).push, 2)
        for n in range(4):
            call(third.push, n)
        names = [f"{prefix}{token}", f"{prefix}{token}:second", f"{prefix}third"]
        assert [*tasks.queue_names] == names
        with Queue.from_url(kit_url, names[0]) as queue, Queue.from_url(kit_url, names[1]) as other:
            assert_pushed(queue, {"task": "first", "args": {"n": 1}}, count=1)
            handled = call(drain, tasks)
            assert [message.task for message in handled] == ["first", *["third"] * 4, "second"]
            assert [dead.reason for dead in other.dead_letters()] == ["enough"]
    within = ["in the lifespan"]
    assert seen == [("first", within), [0, 1, 2], [3], ("second", within)]


def test_some_messages_of_a_batch_fail_and_others_are_done(both: Both, kit_url: str) -> None:
    tasks, call = both.tasks, both.call
    batches: list[list[int]] = []

    @tasks.batch(size=9)
    def store(ns: list[int], messages: list[Message]) -> None:
        batches.append(ns)
        verdicts: list[Exception] = [Reject("one"), Later(60)]
        if len(ns) == 4:
            raise Failed(dict(zip(messages, [*verdicts, KeyError("three")], strict=False)))

    with connected(tasks, url=kit_url):
        for n in range(4):
            call(store.push, n)
        with pytest.raises(KeyError, match="three"):
            call(drain, tasks)
        call(drain, tasks)
        queue = tasks.queue(tasks.queue_names[0])
        assert [dead.reason for dead in call(queue.dead_letters)] == ["one"]
    assert batches == [[0, 1, 2, 3], [2], [1]]


@pytest.mark.parametrize("ends", ["returns", "fails"])
def test_tasks_are_as_before_when_their_test_has_ended(
    both: Both, token: str, url: str, kit_url: str, ends: str
) -> None:
    tasks, call = both.tasks, both.call
    tasks.schedule(every=60)(tasks.task(name="t")(nothing))
    before = call(tasks.queue)
    with contextlib.suppress(ZeroDivisionError), connected(tasks, url=kit_url) as prefix:
        late = tasks.task(name="late")(lambda: None)
        apart = tasks.task(name="apart", queue="apart")(lambda: None)
        assert apart.definition.queue == f"{prefix}apart"
        call(lambda: tasks.queue().push({"n": 1}))
        assert 1 / (ends == "returns")
    assert (tasks.queue_names, late.definition.queue) == ((token, "apart"), token)
    assert tasks.queue() is before
    assert repr(before).endswith(f"{url.removeprefix('redis://')}/0>")
    assert [schedule.queue for schedule in tasks._schedules] == [token]
    with redis.Redis.from_url(kit_url) as client:
        assert [*client.scan_iter(f"*{prefix}*")] == []


def test_a_server_that_is_not_a_test_s_is_left_alone(
    both: Both, url: str, token: str, plain_client: redis.Redis
) -> None:
    tasks, call = both.tasks, both.call

    @tasks.task
    def destroy() -> None:
        raise AssertionError("it was called")

    call(destroy.push)
    call(destroy.options(delay=60).push)
    before = dump(plain_client)
    with Queue.from_url(url, token) as queue:
        for refused in (
            lambda: call(drain, tasks),
            lambda: drain(queue, print),
            lambda: assert_pushed(queue, {}, count=2),
        ):
            with pytest.raises(ConfigurationError, match="is not a test's, so it is left alone"):
                refused()
    assert dump(plain_client) == before
    plain_client.delete(*before)


@pytest.mark.parametrize(
    ("marker", "name", "accepted"),
    [
        ("for tests", "test-{}", True),
        ("for tests", "{{test-{}}}", True),
        ("for tests", "{}", False),
        ("private:0123456789", "{}", False),  # a copy of the data of a private server
        ("", "test-{}", False),
    ],
)
def test_on_a_shared_server_a_test_s_queue_has_a_name_of_one(
    url: str, token: str, plain_client: redis.Redis, marker: str, name: str, accepted: bool
) -> None:
    plain_client.set("ackq-test", marker)
    with Queue.from_url(url, name.format(token)) as queue:
        queue.push({"id": "a"})
        if accepted:
            assert len(drain(queue, print)) == 1
        else:
            with pytest.raises(ConfigurationError, match="is not a test's"):
                drain(queue, print)
            queue.purge()
    plain_client.delete("ackq-test")


def test_tasks_that_are_called_inline_reach_no_server(both: Both, kit_url: str) -> None:
    tasks = both.tasks

    def push() -> None:
        if isinstance(tasks, Tasks):
            with tasks.inline():
                tasks.queue().push({})
        else:

            async def go() -> None:
                async with tasks.inline():
                    await tasks.queue().push({})

            both.call(go)

    with pytest.raises(ConfigurationError, match="within inline"):
        push()
    with connected(tasks, url=kit_url):
        push()


def test_one_object_of_tasks_serves_several_event_loops(kit_url: str) -> None:
    tasks = AsyncTasks("redis://127.0.0.1:1")
    seen: list[int] = []

    @tasks.task
    async def note(n: int) -> None:
        seen.append(n)

    async def test(n: int) -> None:
        await note.push(n)
        assert len(await drain(tasks)) == 1

    for n in range(3):
        with connected(tasks, url=kit_url):
            asyncio.run(test(n))
    assert seen == [0, 1, 2]


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


def test_what_the_kit_cannot_use_is_refused_by_its_name(queue: Queue) -> None:
    wrong: Any
    for wrong in (0, -1, None, "5", 1.5, True):
        with pytest.raises(ConfigurationError, match="limit is an integer"):
            drain(queue, print, limit=wrong)
    for wrong in (None, 5, []):
        with pytest.raises(ConfigurationError, match="fields is a mapping"):
            assert_pushed(queue, wrong)
        with pytest.raises(ConfigurationError, match="takes Tasks or AsyncTasks"), connected(wrong):
            pass


def test_a_queue_needs_a_handler(queue: Queue) -> None:
    with pytest.raises(ConfigurationError, match="pass the handler"):
        drain(queue)  # type: ignore[call-overload]
