"""Queue and AsyncQueue are one API: same names, parameters, defaults and promises."""

from __future__ import annotations

import inspect
import re

import pytest

from ackq import AsyncQueue, Queue

#: What asyncio calls otherwise.
RENAMED = {
    "close": "aclose",
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__iter__": "__aiter__",
}
METHODS = sorted(name for name, value in vars(Queue).items() if inspect.isroutine(value))


def test_both_have_the_same_methods() -> None:
    asynchronous = {name for name, value in vars(AsyncQueue).items() if inspect.isroutine(value)}
    assert {RENAMED.get(name, name) for name in METHODS} == asynchronous


@pytest.mark.parametrize("name", [name for name in METHODS if not name.startswith("_")])
def test_a_method_has_one_signature_and_one_docstring(name: str) -> None:
    one, other = getattr(Queue, name), getattr(AsyncQueue, RENAMED.get(name, name))
    assert _parameters(one) == _parameters(other)
    assert inspect.getdoc(one) == inspect.getdoc(other)
    assert inspect.getdoc(one), f"{name} has no docstring"


def test_only_the_client_differs_between_the_constructors() -> None:
    one, other = _parameters(Queue), _parameters(AsyncQueue)
    assert one.pop("client") != other.pop("client")
    assert one == other


def test_every_method_of_the_async_queue_is_awaited_or_iterated() -> None:
    plain = {"from_url", "name", "config", "lease"}
    for name in METHODS:
        if name.startswith("_") or name in plain:
            continue
        assert inspect.iscoroutinefunction(getattr(AsyncQueue, RENAMED.get(name, name))), name


def _parameters(function: object) -> dict[str, tuple[str, str]]:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return {
        name: (re.sub(r"\s", "", str(each.annotation)), repr(each.default))
        for name, each in signature.parameters.items()
    }
