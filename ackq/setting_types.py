"""Settings have the types that their annotations say, and are checked where they are written."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal, ParamSpec, TypeVar, Union

from ackq.errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")

#: What to write for a setting of a class, by the name of the class.
_EXAMPLES = {
    "Backoff": "Backoff(base=5, limit=600)",
    "Batch": "Batch(100)",
    "Breaker": "Breaker(failures=5, pause=30)",
    "Confirm": "Confirm(replicas=1)",
    "Groups": "Groups(field='customer')",
    "Health": "Health(port=8081)",
    "RateLimit": "RateLimit(100, per=60)",
    "Retry": "Retry(on=(OSError,))",
    "Schedule": "Schedule('report', {'kind': 'report'}, every=3600)",
}
_SECONDS = object()
_NAMES = {
    float: "a number",
    int: "an integer",
    str: "text",
    bool: "True or False",
    type(None): "None",
    _SECONDS: "a number of seconds or a timedelta",
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of each call against the annotations, as a decorator.

    Raises:
        ConfigurationError: an argument is of another type, or a keyword has no parameter.
    """
    signature = inspect.signature(function)
    named = [
        each.name for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD
    ]
    (rest,) = [*(set(signature.parameters) - set(named)), None][:1]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = dict(zip(named, args, strict=False)) | kwargs
        given.pop("self", None)
        check_types(function, given, rest)
        return function(*args, **kwargs)

    return call


def check_fields(record: Any, prefix: str) -> None:
    """Check the fields of a dataclass against their annotations; see `checked`."""
    values = {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}
    check_types(type(record), values, prefix=prefix)


def check_types(
    owner: Any, given: Mapping[str, Any], rest: str | None = None, prefix: str = ""
) -> None:
    """Check settings against the annotations of the function or class that takes them.

    Args:
        owner: a function, a dataclass or a ``TypedDict``.
        given: the settings by name.
        rest: the parameter of the function that takes all other keywords.
        prefix: what errors put before the name of a setting.

    Raises:
        ConfigurationError: a setting is of another type, or there is no such setting.
    """
    hints, plain, takes_all = _hints_of(owner, rest)
    for name, value in given.items():
        if (hint := hints.get(name)) is not None:
            usual = type(value) in plain[name] and value == value  # not NaN
            if not usual and not _fits(value, hint):
                raise ConfigurationError(f"{prefix}{name} is {_described(hint)}, not {value!r}")
        elif not takes_all:
            near = get_close_matches(name, hints, 1)
            instead = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(hints)}"
            raise ConfigurationError(f"there is no setting {name!r}: {instead}")


@functools.lru_cache(200)
def _hints_of(owner: Any, rest: str | None) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Return annotations by the name of the setting, and whether others are taken too.

    Between them, by name: classes whose instances all fit, so that most settings need no more.
    """
    hints = typing.get_type_hints(owner)
    hints.pop("return", None)
    hints = {name: type(None) if hint is None else hint for name, hint in hints.items()}
    others = hints.pop(rest, None) if rest else None
    takes_all = others is not None and typing.get_origin(others) is not typing.Unpack
    if others is not None and not takes_all:
        hints |= typing.get_type_hints(typing.get_args(others)[0])
    plain: dict[str, Any] = {}
    for name, hint in hints.items():
        union = typing.get_origin(hint) in (Union, types.UnionType)
        parts = {*typing.get_args(hint)} if union else {hint}
        numbers = {int, float} if float in parts else set()
        plain[name] = numbers | ({int, str, bool, type(None), timedelta, datetime} & parts)
    return hints, plain, takes_all


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type."""
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in (Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if kind in (int, float):
        number = isinstance(value, int if kind is int else int | float)
        return number and not isinstance(value, bool) and not math.isnan(value)
    if kind is collections.abc.Callable:
        return callable(value)
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True  # what only a type checker knows
    if typing.is_typeddict(kind):
        kind = dict
    return isinstance(value, kind) and (not parts or _hold(value, kind, parts))


def _hold(value: Any, kind: type, parts: tuple[Any, ...]) -> bool:
    """Return whether the members of a value are of the types that its own type names."""
    if issubclass(kind, collections.abc.Mapping):
        return all(_fits(name, parts[0]) and _fits(each, parts[1]) for name, each in value.items())
    if issubclass(kind, collections.abc.Sequence):
        return not isinstance(value, str | bytes) and all(_fits(each, parts[0]) for each in value)
    return kind is not type or issubclass(value, parts[0])


def _described(hint: Any) -> str:
    """Return what to write for a setting of a type."""
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in (Union, types.UnionType):
        if {float, timedelta} <= {*parts}:
            parts = (_SECONDS, *(part for part in parts if part not in (float, timedelta)))
        return " or ".join(dict.fromkeys(map(_described, parts)))
    if kind is Literal:
        return " or ".join(map(repr, parts))
    if kind is collections.abc.Callable:
        return "a function"
    if kind in _NAMES:
        return _NAMES[kind]
    name = getattr(kind, "__name__", str(kind))
    if isinstance(kind, type) and issubclass(kind, collections.abc.Mapping):
        return f"a mapping, {' to '.join(map(_described, parts))}" if parts else "a mapping"
    if isinstance(kind, type) and issubclass(kind, list | tuple | collections.abc.Sequence):
        return f"a {name.lower()} of {_described(parts[0])}" if parts else f"a {name.lower()}"
    if kind is type:
        return f"a class of {parts[0].__name__}" if parts else "a class"
    return f"a {name}, such as {_EXAMPLES[name]}," if name in _EXAMPLES else f"a {name}"
