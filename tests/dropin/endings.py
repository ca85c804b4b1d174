"""Functions that end in every way there is, and what the rule has to say of each.

Imports nothing but the standard library and the rule, so that it runs on any interpreter.
"""

import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ackq.dropin.call_stack import CallStack


def pop() -> CallStack:
    """Stand for the drop-in's own function."""
    return CallStack(sys._getframe())


class Boom(Exception):
    pass


def helper(raises: bool, kept: list[CallStack]) -> None:
    kept.append(pop())
    if raises:
        raise Boom


def returns(kept: list[CallStack]) -> None:
    helper(False, kept)


def returns_early(kept: list[CallStack]) -> None:
    for _ in range(3):
        with contextmanager(lambda: iter([None]))():
            helper(False, kept)
            return


def returns_none_explicitly(kept: list[CallStack]) -> int | None:
    kept.append(pop())
    return None


def raises(kept: list[CallStack]) -> None:
    helper(True, kept)


def raises_in_an_expression(kept: list[CallStack]) -> int:
    kept.append(pop())
    return 1 // 0


def raises_after_a_finally(kept: list[CallStack]) -> None:
    try:
        kept.append(pop())
        raise Boom
    finally:
        ""


def raises_from_a_comprehension(kept: list[CallStack]) -> list[Any]:
    return [helper(True, kept) for _ in "a"]  # type: ignore[func-returns-value]


def asserts(kept: list[CallStack]) -> None:
    kept.append(pop())
    raise AssertionError


def interrupted(kept: list[CallStack]) -> None:
    kept.append(pop())
    raise KeyboardInterrupt


def exits(kept: list[CallStack]) -> None:
    kept.append(pop())
    sys.exit()


def a_generator_that_is_broken_off(kept: list[CallStack]) -> None:
    def jobs() -> Iterator[None]:
        while True:
            kept.append(pop())
            yield

    for _ in jobs():
        break


def a_generator_that_raises(kept: list[CallStack]) -> None:
    def jobs() -> Iterator[None]:
        kept.append(pop())
        yield
        raise Boom

    list(jobs())


def a_generator_in_a_generator(kept: list[CallStack]) -> None:
    def inner() -> Iterator[None]:
        kept.append(pop())
        yield

    def outer() -> Iterator[None]:
        yield from inner()

    for _ in outer():
        raise Boom


def a_context_manager_whose_block_raises(kept: list[CallStack]) -> None:
    @contextmanager
    def job() -> Iterator[None]:
        kept.append(pop())
        yield

    with job():
        raise Boom


def a_coroutine_that_returns(kept: list[CallStack]) -> None:
    async def consume() -> None:
        kept.append(pop())
        await Pause()

    run(consume())


def a_coroutine_that_awaits_what_raises(kept: list[CallStack]) -> None:
    async def fail() -> None:
        await Pause()
        raise Boom

    async def consume() -> None:
        kept.append(pop())
        await fail()

    with suppress(Boom):
        run(consume())


def an_asynchronous_generator(kept: list[CallStack]) -> None:
    async def jobs() -> AsyncIterator[None]:
        kept.append(pop())
        yield
        raise Boom

    async def consume() -> None:
        async for _ in jobs():
            await Pause()

    with suppress(Boom):
        run(consume())


class Pause:
    def __await__(self) -> Generator[None]:
        yield


def run(coroutine: Any) -> None:
    with suppress(StopIteration):
        while True:
            coroutine.send(None)


Function = Callable[[list[CallStack]], object]

SUCCEED: tuple[Function, ...] = (
    returns,
    returns_early,
    returns_none_explicitly,
    a_generator_that_is_broken_off,
    a_coroutine_that_returns,
)
FAIL: tuple[Function, ...] = (
    raises,
    raises_in_an_expression,
    raises_after_a_finally,
    raises_from_a_comprehension,
    asserts,
    interrupted,
    exits,
    a_generator_that_raises,
    a_generator_in_a_generator,
    a_context_manager_whose_block_raises,
    a_coroutine_that_awaits_what_raises,
    an_asynchronous_generator,
)


def judge(function: Function) -> bool:
    kept: list[CallStack] = []
    with suppress(Boom, ZeroDivisionError, AssertionError, KeyboardInterrupt, SystemExit):
        function(kept)
    return kept[0].failed()


def check_all() -> None:
    """Judge every function often enough for CPython to specialise its byte code."""
    for _ in range(50):
        wrong = [each.__name__ for each in SUCCEED if judge(each)]
        wrong += [each.__name__ for each in FAIL if not judge(each)]
        if wrong:  # no assert: python -O leaves those out
            raise ValueError(f"judged wrongly: {wrong}")
