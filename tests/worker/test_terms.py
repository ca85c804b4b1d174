"""Each message has its own context, and the terms that its handler gives it."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

import ackq
from ackq.worker import Again, Backoff, Terms
from ackq.worker.failures import outlook
from ackq.worker.policy import USUAL, Settlement, settlement_of
from ackq.worker.threads import finish
from tests.waiting import wait_until
from tests.worker.conftest import Rig, settled

SEEN: ContextVar[int] = ContextVar("seen", default=0)


def test_a_context_variable_does_not_reach_the_next_message(rig: Rig) -> None:
    seen: list[int] = []

    async def remember(message: ackq.Message) -> None:
        seen.append(SEEN.get())
        SEEN.set(1)
        await asyncio.sleep(0)
        seen.append(SEEN.get())
        SEEN.set(2)
        task = asyncio.create_task(asyncio.sleep(0, SEEN.get()))
        async with asyncio.timeout(5):
            seen.append(await task)

    def remember_too(message: ackq.Message) -> Any:
        seen.append(SEEN.get())
        SEEN.set(1)
        return finish_and_look()

    async def finish_and_look() -> None:
        await asyncio.sleep(0)
        SEEN.set(2)

    queue = rig.queue(3)
    rig.work(queue, remember, concurrency=1, start=False).drain()
    assert seen == [0, 1, 2] * 3
    seen.clear()
    queue.push_many([{}, {}])
    rig.work(queue, remember_too, concurrency=1, start=False).drain()
    assert seen == [0, 0]
    assert settled(queue)


def test_a_handler_gives_each_message_its_terms(rig: Rig) -> None:
    terms = {
        "final": Terms(is_final=lambda error: isinstance(error, OSError)),
        "twice": Terms(max_receives=2, backoff=Backoff(base=0), record_errors="none"),
        "slow": Terms(max_receives=1, time_limit=0.05),
    }

    async def handle(message: ackq.Message) -> None:
        message.terms = terms[message.id]
        await asyncio.sleep(30 if message.id == "slow" else 0)
        raise OSError("why")

    queue = rig.queue_of()
    queue.push_many([{"id": id} for id in terms])
    rig.work(queue, handle)
    wait_until(lambda: queue.stats().dead == 3, "three dead letters")
    letters = {letter.id: letter for letter in queue.dead_letters()}
    assert {id: (letter.reason, letter.receive_count) for id, letter in letters.items()} == {
        "final": ("not retried: OSError", 1),
        "twice": ("max receives", 2),
        "slow": ("max receives", 1),
    }
    assert letters["twice"].errors == ()
    assert letters["slow"].errors[0].type == "TimeoutError"


def test_terms_decide_how_a_message_is_settled() -> None:
    backoff = Backoff(base=8, jitter=0)
    once = Terms(max_receives=1)
    final = Terms(is_final=lambda error: isinstance(error, KeyError))
    for error, count, terms, expected in (
        (OSError(), 1, USUAL, Settlement("nack", 8.0)),
        (OSError(), 1, Terms(backoff=Backoff(base=3, jitter=0)), Settlement("nack", 3.0)),
        (OSError(), 1, once, Settlement("reject", "max receives")),
        (Again(5), 1, once, Settlement("reject", "max receives")),
        (ackq.worker.Release(5), 1, once, Settlement("release", 5.0)),
        (ackq.worker.Reject("why"), 1, once, Settlement("reject", "why")),
        (KeyError(), 1, final, Settlement("reject", "not retried: KeyError")),
        (Again(), 1, Terms(is_final=lambda error: False), Settlement("nack", 8.0)),
    ):
        assert settlement_of(error, count, backoff, 0.0, terms) == expected


def test_a_failure_that_is_final_is_logged_as_such() -> None:
    message = ackq.Message("q", b"a", b"{}", 1, 2)
    assert outlook(message, Settlement("reject", "not retried: KeyError"), 25) == (
        "dead, not retried"
    )
    assert outlook(message, Settlement("reject", "max receives"), 2) == "dead after 2"


def test_an_awaitable_is_finished_outside_of_a_worker_too() -> None:
    async def five() -> int:
        return 5

    async def beside() -> int:
        result: int = finish(five())
        return result

    assert finish(five()) == 5
    assert asyncio.run(beside()) == 5


@pytest.mark.parametrize(
    ("body", "task"),
    [
        (b'{"id":"a","task":"images.resize","args":{}}', "images.resize"),
        (b'{"id": "a", "task": "images.resize"}', "images.resize"),
        (b'{"task":"\\u00fc","id":1}', "ü"),
        (b'{"specversion":"1.0","type":"org.example"}', "org.example"),
        (b'{"type":"org.example"}', None),
        (b'{"task":5}', None),
        (b'{"task":""}', None),
        (b'{"task":"%s"}' % (b"x" * 201), None),
        (b'{"n":"%s","task":"x"}' % (b"x" * 65_536), None),
        *((each, None) for each in (b"[1]", b'["task"]', b'"task"', b"nonsense", b'{"task":"a')),
        (b'{"args":{"task":"inner"}}', None),
        (b'{"task":{"a":1}}', None),
    ],
)
def test_the_task_of_a_message(body: bytes, task: str | None) -> None:
    assert ackq.Message("q", b"a", body, 1, 1).task == task
