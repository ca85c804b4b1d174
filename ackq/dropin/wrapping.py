"""Make an object of the same class as the client that it wraps."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")

_classes: dict[tuple[type, type], type] = {}


def wrapper_of(dropin: type[T], client: Any) -> T:
    """Return an uninitialised ``dropin`` that is also an instance of the client's class.

    It shares the client's connections and settings, so whatever the drop-in does not change works
    as before: commands, ``r["key"]``, pipelines, locks, and what a subclass of the user's adds.
    """
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
