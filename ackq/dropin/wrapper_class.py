"""Make an object of the same class as the client that it wraps."""

from __future__ import annotations

from typing import Any, TypeVar

from ackq.errors import ConfigurationError

T = TypeVar("T")

#: Commands that the drop-in answers itself, without a call of the client's own method.
ANSWERED = ("rpop", "brpop", "lpop", "blpop", "llen", "delete", "unlink")

_classes: dict[tuple[type, type], type] = {}


def wrapper_of(dropin: type[T], client: Any) -> T:
    """Return an uninitialised ``dropin`` that is also an instance of the client's class.

    It shares the client's connections and settings, so whatever the drop-in does not change works
    as before: commands, ``r["key"]``, pipelines, locks, and what a subclass of the user's adds.

    Raises:
        ConfigurationError: a subclass of the user's overrides a command of `ANSWERED`.
    """
    for name in ANSWERED:
        if _is_overridden(client, name):
            raise ConfigurationError(
                f"{type(client).__name__} overrides {name}, which ackq.dropin would not call."
                f" Override {name} in a subclass of ackq.dropin.{dropin.__name__} instead, and wrap"
                " a client that does not override it"
            )
    kind = _classes.get((dropin, type(client)))
    if kind is None:
        members = {"__module__": dropin.__module__, "__doc__": dropin.__doc__}
        kind = type(dropin.__name__, (dropin, type(client)), members)
        kind = _classes.setdefault((dropin, type(client)), kind)
    wrapper: T = object.__new__(kind)
    wrapper.__dict__.update(getattr(client, "__dict__", {}))
    # redis-py's cluster client for asyncio keeps its state in slots.
    for base in type(client).__mro__:
        for slot in vars(base).get("__slots__", ()):
            if hasattr(client, slot):
                setattr(wrapper, slot, getattr(client, slot))
    return wrapper


def _is_overridden(client: Any, name: str) -> bool:
    """Return whether ``client.name`` is not redis-py's own method."""
    method = vars(client).get(name) if hasattr(client, "__dict__") else None
    module = getattr(method or getattr(type(client), name, None), "__module__", None) or "redis"
    return module.partition(".")[0] != "redis"
