"""A task: its name, its function, its arguments, and what applies to its messages."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from ackq.config import (
    Confirm,
    RateLimit,
    RecordErrors,
    Seconds,
    check_integer,
    check_seconds,
    microseconds,
)
from ackq.core.ids import key_of_id
from ackq.core.limits import MAX_DEDUP_WINDOW
from ackq.core.names import check_name, is_unicode
from ackq.core.task_name import MAX_NAME
from ackq.errors import ConfigurationError, InvalidArguments
from ackq.queue import push_options
from ackq.queue.dedup import check_key
from ackq.queue.group_names import text_of_group
from ackq.queue.messages import Message
from ackq.queue.unique import Uniqueness, UniqueTerms
from ackq.setting_types import check_types
from ackq.tasks.arguments import Arguments
from ackq.tasks.policy import Breaker, Circuit, Retry
from ackq.worker.batch import Batch
from ackq.worker.policy import Terms
from ackq.worker.verdicts import check_handler

#: Options that are checked one by one.
_CHECKED = ("id", "expires", "group", "confirm")
#: What happens to an expired message: it becomes a dead letter, or is acked.
OnExpiry = Literal["dead", "drop"]


class Options(TypedDict, total=False):
    """Options of pushes: those of `ackq.Queue.push`, and two of tasks; see `Task.options`."""

    id: str | int | None
    expires: Seconds | None
    delay: Seconds | None
    at: float | datetime | None
    front: bool
    dedup: str | None
    dedup_window: Seconds
    unique: Uniqueness | None
    unique_by: Sequence[str] | None
    unique_for: Seconds
    replace: bool
    group: str | int | None
    confirm: int | Confirm | None


class Settings(TypedDict, total=False):
    """What a task may have; see `ackq.tasks.Tasks.task`."""

    name: str | None
    queue: str | None
    max_receives: int | None
    time_limit: Seconds | None
    retry: Retry | None
    rate_limit: RateLimit | None
    record_errors: RecordErrors | None
    expires: Seconds | None
    on_expiry: OnExpiry
    breaker: Breaker | None
    group: str | None
    options: Options | None


@dataclass(slots=True, eq=False)
class Definition:
    """One task."""

    name: str
    #: The name of the queue it is pushed to.
    queue: str
    function: Callable[..., Any]
    arguments: Arguments
    terms: Terms
    #: What all workers together may take from its queue.
    rate_limit: RateLimit | None = None
    expires: float | None = None
    on_expiry: OnExpiry = "dead"
    circuit: Circuit | None = None
    #: How many messages the function gets at once. None: one, and not as a list.
    batch: Batch | None = None
    #: The parameter whose argument is the group of a message.
    group: str | None = None
    #: Options of each push, unless a push has its own.
    options: Mapping[str, Any] = field(default_factory=dict)

    #: Whether the function is asynchronous.
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        """Look at the function once, since each message needs to know."""
        self.is_async = inspect.iscoroutinefunction(self.function)

    def with_group(self, arguments: bytes, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of a push of these arguments, with the group that one of them names.

        Raises:
            InvalidArguments: its value cannot be a group.
        """
        if self.group is None or options.get("group") is not None:
            return options
        value = msgspec.to_builtins(getattr(self.arguments.decode(arguments), self.group))
        if not isinstance(value, str | int) or text_of_group(value) is None:
            raise InvalidArguments(
                f"$.{self.group} is the group of the message, so it is a text that is not empty, or"
                " an integer below 2**53",
                task=self.name,
            )
        return {**options, "group": value}

    def parameters(self, messages: list[Message], state: Any) -> dict[str, Any]:
        """Return the arguments that the worker fills in.

        Raises:
            ConfigurationError: the state has no such part.
        """
        value = messages[0] if self.batch is None else messages
        filled: dict[str, Any] = dict.fromkeys(self.arguments.message_names, value)
        for name, kind in self.arguments.state_types.items():
            filled[name] = self._part_of(state, name, kind)
        return filled

    def filled(self, args: Sequence[Any], kwargs: Mapping[str, Any], state: Any) -> dict[str, Any]:
        """Return the keywords of a call outside of a worker, with parts of the state added.

        Raises:
            TypeError: nothing fills in one of the others.
        """
        keywords, given = dict(kwargs), {*kwargs, *self.arguments.positions[: len(args)]}
        for name in self.arguments.injected - given:
            if state is None or name not in self.arguments.state_types:
                raise TypeError(f"task {self.name!r}: a worker fills in {name!r}; here, pass it")
            keywords[name] = self._part_of(state, name, self.arguments.state_types[name])
        return keywords

    def _part_of(self, state: Any, name: str, kind: Any) -> Any:
        """Return the state if it is of this type, else its part of this name."""
        if isinstance(kind, type) and isinstance(state, kind):
            return state
        if isinstance(state, Mapping) and name in state:
            return state[name]
        if hasattr(state, name):
            return getattr(state, name)
        raise ConfigurationError(
            f"task {self.name!r}: the lifespan yields {type(state).__name__}, which is no"
            f" {getattr(kind, '__name__', kind)} and has no {name!r}"
        )


def define(
    function: Callable[..., Any], batch: Batch | None, /, **settings: Unpack[Settings]
) -> Definition:
    """Return a task; see `ackq.tasks.Tasks.task`. Its queue has its name unless one is given.

    Raises:
        ConfigurationError: a setting is out of range, or the signature cannot be used.
    """
    check_types(Settings, settings)
    _check_function(function)
    name = settings.get("name")
    if name is None:
        name = _name_of(function)
    elif not (0 < len(name) <= MAX_NAME and is_unicode(name)):
        raise ConfigurationError(f"name is text of 1 to {MAX_NAME} characters, not {name!r}")
    retry, breaker = settings.get("retry") or Retry(), settings.get("breaker")
    queue = settings.get("queue")
    check_name(queue := name if queue is None else queue)
    if (max_receives := settings.get("max_receives")) is not None:
        check_integer(max_receives, "max_receives", 1, 1_000_000)
    if (time_limit := settings.get("time_limit")) is not None:
        time_limit = check_seconds(time_limit, "time_limit")
    if (expires := settings.get("expires")) is not None:
        expires = check_seconds(expires, "expires")
    arguments = Arguments(name, function, batch=batch is not None)
    arguments.check(early=True)
    if (group := settings.get("group")) is not None:
        arguments.check_pushed(group)
    return Definition(
        name=name,
        queue=queue,
        function=function,
        arguments=arguments,
        terms=Terms(
            max_receives=max_receives,
            time_limit=time_limit,
            backoff=retry.delays,
            is_final=retry.is_final,
            record_errors=settings.get("record_errors"),
            function=function,
            task=name,
        ),
        rate_limit=settings.get("rate_limit"),
        expires=expires,
        on_expiry=settings.get("on_expiry", "dead"),
        circuit=None if breaker is None else Circuit(breaker),
        batch=batch,
        group=group,
        options=check_options(settings.get("options") or {}),
    )


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of pushes.

    Raises:
        ConfigurationError: one of them does not exist, or is out of range, or two contradict each
            other.
    """
    check_types(Options, options)
    if (expires := options.get("expires")) is not None:
        check_seconds(expires, "expires", zero=True)
    if (id := options.get("id")) is not None and key_of_id(id) is None:
        raise ConfigurationError(
            f"id is text of 1 to 512 bytes or an integer below 2**53, not {id!r}"
        )
    for name in ("dedup_window", "unique_for"):
        if name in options:
            microseconds(options[name], name, MAX_DEDUP_WINDOW)
    if (dedup := options.get("dedup")) is not None:
        check_key(dedup)
    if (group := options.get("group")) is not None and text_of_group(group) is None:
        raise ConfigurationError(f"group is a text or an integer below 2**53, not {group!r}")
    if (confirm := options.get("confirm")) is not None:
        Confirm.of(confirm)
    others: Any = {name: each for name, each in options.items() if name not in _CHECKED}
    terms = push_options.Terms.of(push_options.PushOptions(**others))
    if others.get("unique_by") is not None or others.get("replace"):  # unique may still follow
        others["unique"] = others.get("unique") or "done"
    if others.get("replace") and not terms.is_later:  # so may the time
        terms = push_options.Terms("delay", 0, None)
    UniqueTerms.of(push_options.PushOptions(**others), terms)
    return dict(options)


def _check_function(function: Any) -> None:
    """Raise an error unless this is a function, whose name and signature are its own."""
    if isinstance(function, type) or not (callable(function) and hasattr(function, "__qualname__")):
        raise ConfigurationError(
            f"a task is a function, not {function!r}: give the decorator settings by name, as in"
            " @tasks.task(name='images.resize'), and wrap a partial, a class or an object in a def"
        )
    if hasattr(function, "definition"):
        raise ConfigurationError(f"{function.definition.name!r} is a task already")
    check_handler(function, f"task {function.__qualname__!r}")


def _name_of(function: Callable[..., Any]) -> str:
    """Return ``module.name``. A script gets the name under which a worker imports it."""
    module = function.__module__ or "__main__"  # of code that is run by exec
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec else Path(file).stem if file else module
    return f"{module}.{function.__qualname__.replace('<locals>.', '')}"
