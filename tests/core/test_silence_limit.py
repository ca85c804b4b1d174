"""The limit on asyncio exchanges: it ends those that take too long, and no others."""

import asyncio
import time

import pytest

from ackq.core.io.silence import Silence

SHORT = 0.05


async def exchange(silence: Silence, seconds: float) -> str:
    with silence.limit():
        await asyncio.sleep(seconds)
    return "done"


async def cancelled_by_others(silence: Silence, after: float) -> asyncio.Task[str]:
    task = asyncio.create_task(exchange(silence, 30))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(after, task.cancel)
    await asyncio.wait({task})
    return task


def test_a_block_that_takes_too_long_ends_with_a_timeout() -> None:
    async def body() -> None:
        silence = Silence(SHORT)
        for _ in range(3):  # the timer is set again after it has run
            began = time.monotonic()
            with pytest.raises(TimeoutError):
                await exchange(silence, 30)
            assert SHORT <= time.monotonic() - began < 10
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            assert await exchange(silence, 0) == "done"

    asyncio.run(body())


def test_each_of_many_blocks_has_its_own_limit() -> None:
    async def body() -> None:
        silence, ended = Silence(SHORT), []

        async def begin(number: int) -> None:
            await asyncio.sleep(number * SHORT / 4)
            began = time.monotonic()
            # Every other one ends in time.
            try:
                await exchange(silence, 30 if number % 2 else 0)
            except TimeoutError:
                assert time.monotonic() - began >= SHORT * 0.9
                ended.append(number)

        await asyncio.gather(*map(begin, range(20)))
        assert ended == list(range(1, 20, 2))

    asyncio.run(body())


def test_one_timer_serves_many_blocks_and_goes_when_there_are_none() -> None:
    async def body() -> int:
        silence, timers = Silence(SHORT), 0
        loop = asyncio.get_running_loop()
        call_at = loop.call_at

        def counted(*args: object, **settings: object) -> object:
            nonlocal timers
            timers += 1
            return call_at(*args, **settings)  # type: ignore[arg-type]

        loop.call_at = counted  # type: ignore[method-assign,assignment]
        for _ in range(500):
            with silence.limit():
                pass
        loop.call_at = call_at  # type: ignore[method-assign]
        return timers

    # On a machine that stands still, the time of some may pass.
    assert asyncio.run(body()) < 50


def test_a_cancellation_by_others_stays_one() -> None:
    async def body() -> None:
        silence = Silence(SHORT)
        assert (await cancelled_by_others(silence, 0)).cancelled()
        # Both at the same turn of the loop: the task was cancelled all the same.
        task = asyncio.create_task(exchange(silence, 30))
        await asyncio.sleep(0)
        (limit,) = silence._running
        limit.exceed()
        limit.exceed()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(body())


def test_an_error_of_the_block_is_raised_as_it_is() -> None:
    async def body() -> None:
        silence = Silence(SHORT)
        with pytest.raises(ZeroDivisionError), silence.limit():
            raise ZeroDivisionError
        assert not silence._running

    asyncio.run(body())


def test_a_limit_works_in_the_next_event_loop_too() -> None:
    silence = Silence(SHORT)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            asyncio.run(exchange(silence, 30))

    async def unfinished() -> None:
        asyncio.get_running_loop().create_task(exchange(silence, 0.01))
        await asyncio.sleep(0)

    asyncio.run(unfinished())  # leaves its timer behind
    with pytest.raises(TimeoutError):
        asyncio.run(exchange(silence, 30))
