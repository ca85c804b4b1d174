"""Every parameter of every setting, with values of every kind: meaningful, or refused by name."""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, cast

import pydantic
import pydantic_core
import pytest
import redis
import redis.asyncio

from ackq import AsyncQueue, Confirm, Groups, Message, Queue, RateLimit
from ackq.errors import ConfigurationError, InvalidMessage
from ackq.queue.push import push
from ackq.queue.push_options import PushOptions
from ackq.tasks import AsyncTasks, Backoff, Breaker, Retry, Tasks
from ackq.tasks.definition import Options, Settings
from ackq.worker import AsyncWorker, Batch, Health, Schedule, Worker
from ackq.worker.base import BaseWorker


def note(text: str = "") -> None:
    """A task."""


def rows(rows: list[str]) -> None:
    """A batch task."""


def _handler(message: Message) -> None:
    """Do nothing."""


def _queue(kind: Any = Queue, **settings: Any) -> Any:
    client: Any = redis.Redis() if kind is Queue else redis.asyncio.Redis()
    return kind(**{"client": client, "name": "jobs", **settings})


def _worker(kind: Any, queue: Any, **settings: Any) -> Any:
    return kind(**{"queues": _queue(queue), "handler": _handler, **settings})


def _pushed(**options: Any) -> Any:
    queue = _queue()
    if "group" in options:
        queue = _queue(groups=Groups("customer"))
    if options.keys() & {"replace", "unique_by", "unique_for"}:
        options.setdefault("unique", "done")
    if options.get("replace"):
        options["delay"] = 5
    if "dedup_window" in options:
        options.setdefault("dedup", "key")
    confirm = options.get("confirm")
    if confirm is not None:
        options["confirm"] = queue._fit(confirm)
    body = {"id": "a"} if options.get("unique_by") is None else {"x": 1}
    for _ in push(queue._spec, body, PushOptions(**options)):
        return


def _schedule(tasks: Any, **settings: Any) -> Any:
    if not settings.keys() & {"cron", "every"}:
        settings["every"] = 5
    if ("cron" in settings and settings["cron"] is None) or settings.get("every", 0) is None:
        return None  # the other one is given
    return tasks.schedule(**settings)(tasks.task(note))


#: What is called with one setting, and what has its annotations.
TAKERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "Tasks": (Tasks, (Tasks.__init__,)),
    "AsyncTasks": (AsyncTasks, (AsyncTasks.__init__,)),
    "task": (lambda **given: Tasks(None).task(**given)(note), (Settings,)),
    "async task": (lambda **given: AsyncTasks(None).task(**given)(note), (Settings,)),
    "batch": (lambda **given: Tasks(None).batch(**given)(rows), (Settings, Tasks.batch)),
    "async batch": (
        lambda **given: AsyncTasks(None).batch(**given)(rows),
        (Settings, AsyncTasks.batch),
    ),
    "schedule": (lambda **given: _schedule(Tasks(None), **given), (Tasks.schedule,)),
    "async schedule": (lambda **given: _schedule(AsyncTasks(None), **given), (Tasks.schedule,)),
    "options": (lambda **given: Tasks(None).task(note).options(**given), (Options,)),
    "async options": (lambda **given: AsyncTasks(None).task(note).options(**given), (Options,)),
    "options of a task": (
        lambda **given: Tasks(None).task(options=cast(Any, given))(note),
        (Options,),
    ),
    "push": (_pushed, (Queue.push,)),
    "Retry": (Retry, (Retry,)),
    "Breaker": (lambda **given: Breaker(**{"failures": 5, "pause": 30, **given}), (Breaker,)),
    "Backoff": (Backoff, (Backoff,)),
    "RateLimit": (lambda **given: RateLimit(**{"count": 5, **given}), (RateLimit,)),
    "Batch": (Batch, (Batch,)),
    "Groups": (lambda **given: Groups(**{"field": "customer", **given}), (Groups,)),
    "Confirm": (lambda **given: Confirm(**{"replicas": 1, **given}), (Confirm,)),
    "Health": (lambda **given: Health(**{"port": 0, **given}), (Health.__init__,)),
    "Schedule": (
        lambda **given: Schedule(**{"name": "s", "message": b"", "every": 5, **given}),
        (Schedule,),
    ),
    "Queue": (_queue, (Queue.__init__,)),
    "AsyncQueue": (lambda **given: _queue(AsyncQueue, **given), (AsyncQueue.__init__,)),
    "Worker": (lambda **given: _worker(Worker, Queue, **given), (BaseWorker.__init__,)),
    "AsyncWorker": (
        lambda **given: _worker(AsyncWorker, AsyncQueue, **given),
        (BaseWorker.__init__,),
    ),
}
HOSTILE: tuple[Any, ...] = (
    *("x", "", 5, -1, 0.5, None, True, math.nan, math.inf, b"x"),
    *([1], (), {"x": 1}, int, object(), Retry(), lambda: None),
)
#: Parameters that are checked by an error of their own: no other is left out.
APART = {"self", "return", "message", "settings", "P", "queues", "client"}


def _settings(taker: str) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a taker with their annotations, as its signature has them."""
    for owner in TAKERS[taker][1]:
        for name, hint in typing.get_type_hints(owner).items():
            if name not in APART and not name.startswith("_"):
                yield name, hint


def _admitted(hint: Any, value: Any) -> bool:
    """Return whether pydantic takes a value for a type, as it is."""
    config = pydantic.ConfigDict(arbitrary_types_allowed=True, strict=True)
    if isinstance(value, float) and math.isnan(value):
        return hint is Any
    if typing.is_typeddict(hint):
        return isinstance(value, dict)  # its members are tested as "options"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_admitted(part, value) for part in typing.get_args(hint))
    try:
        kind: Any = pydantic.TypeAdapter(hint, config=config)
    except (pydantic.PydanticUserError, pydantic_core.SchemaError):
        return isinstance(value, typing.get_origin(hint) or hint)
    try:
        kind.validate_python(value)
    except pydantic.ValidationError:
        return False
    return True


def _complaints(call: Callable[..., Any], name: str, hint: Any) -> list[str]:
    """Return what is wrong with how a setting is checked."""
    found = []
    for value in HOSTILE:
        try:
            call(**{name: value})
        except (ConfigurationError, InvalidMessage) as error:
            # A mapping's error names 'x'; that of a URL calls it so.
            if name not in str(error) and value != {"x": 1} and "Redis URL" not in str(error):
                found.append(f"{name}={value!r} is refused without its name: {error}")
        except Exception as error:
            found.append(f"{name}={value!r} ends in {error!r}")
        else:
            if not _admitted(hint, value):
                found.append(f"{name}={value!r} is accepted, and is no {hint}")
    return found


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_each_setting_is_meaningful_or_refused_by_its_name(taker: str) -> None:
    call, _ = TAKERS[taker]
    settings = dict(_settings(taker))
    assert settings
    complaints = [text for name, hint in settings.items() for text in _complaints(call, name, hint)]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("taker", TAKERS)
def test_a_misspelt_setting_is_refused_by_its_name(taker: str) -> None:
    call, _ = TAKERS[taker]
    for name, _hint in _settings(taker):
        misspelt = name[:-1] + "y" + name[-1:]
        with pytest.raises((ConfigurationError, TypeError), match=misspelt):
            call(**{misspelt: 5})


def test_an_unchecked_setting_would_be_noticed() -> None:
    def lax(retry: Retry | None = None, seconds: float = 1.0) -> None:
        """Check nothing."""

    def crash(retry: Retry | None = None) -> None:
        raise AttributeError("'int' object has no attribute 'delays'")

    assert len(_complaints(lax, "retry", Retry | None)) == len(HOSTILE) - 2
    assert len(_complaints(lax, "seconds", float)) > 8
    assert len(_complaints(crash, "retry", Retry | None)) == len(HOSTILE)


def test_options_of_tasks_are_those_of_a_push() -> None:
    parameters = inspect.signature(Queue.push).parameters.values()
    of_push = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    hints, own = typing.get_type_hints(Queue.push), typing.get_type_hints(Options)
    assert {name: hints[name] for name in of_push} == {
        name: hint for name, hint in own.items() if name not in ("id", "expires")
    }
