"""What tasks cost: a worker with a task beside one with a bare handler, and two libraries of types.

The workers take turns on the same messages, each on a full queue until it is empty. The time from
the first call to the last is measured, and the processor time of the worker. For the types, a
process reads and checks the arguments of the same messages with msgspec, which ackq.tasks uses, and
with pydantic, which it could use.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

import orjson
import redis

from ackq import AsyncQueue, Message, Queue
from ackq.bench.figures import Result
from ackq.bench.rounds import Round, duel, in_turns, measures_of
from ackq.tasks import AsyncTasks, Tasks
from ackq.tasks.arguments import Arguments
from ackq.worker import AsyncWorker, Worker
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import target

PURPOSE = "Workers with tasks and with bare handlers; arguments by msgspec and by pydantic."
NAME = "ackq-benchmark-tasks"
BARE, TASKS = "bare handler", "ackq, tasks"
MSGSPEC, PYDANTIC = "ackq, msgspec", "pydantic"
#: The share of the bare handler's throughput that tasks keep at least.
LEAST = 0.8


T = TypeVar("T")
#: A turn of a worker: the time that it took, and its own part of it.
Both = tuple[Round, Round]


@dataclass
class Size:
    width: int
    height: int


class Calls:
    """The time from the first call of a handler to the last, and the process's part of it."""

    def expect(self, calls: int) -> None:
        """Begin to count."""
        self._expected = calls
        self._count = itertools.count(1)
        self.seconds = self.processor = math.nan

    def note(self) -> None:
        """Note a call."""
        number = next(self._count)
        if number == 1:
            self._first = time.perf_counter(), time.process_time()
        elif number == self._expected:
            self.seconds = time.perf_counter() - self._first[0]
            self.processor = time.process_time() - self._first[1]


CALLED = Calls()


def few(path: str, width: int = 80) -> None:
    """A task with two arguments."""
    CALLED.note()


def many(sizes: list[Size], at: datetime, who: UUID, price: Decimal) -> None:
    """A task with a list of records, and types that are text in JSON."""


#: Functions, with the arguments of their messages.
CALLS: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {
    "two arguments": (few, ("a.png", 40)),
    "twenty records": (
        many,
        ([Size(n, n) for n in range(20)], datetime.now(UTC), UUID(int=1), Decimal("12.50")),
    ),
}


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 15, quick=5, smoke=1, help="with one turn for each contestant")
    options.size("messages", 20_000, quick=5000, smoke=200, help="of a worker in each turn")
    options.size("reads", 50_000, quick=10_000, smoke=100, help="of arguments in each turn")


def run(settings: Settings) -> Result:
    """Let each pair take turns."""
    with target(settings.url) as server:
        result = Result("tasks", facts(server, settings))
        for case, turns in workers(server.url, settings.messages).items():
            progress(case)
            both = _in_turn(turns, settings.rounds)
            rounds = {name: [wall for wall, _ in each] for name, each in both.items()}
            result.measures += measures_of(case, rounds)
            result.ratios += duel(case, rounds, TASKS, BARE, LEAST)
            case += ", by processor time"
            rounds = {name: [processor for _, processor in each] for name, each in both.items()}
            result.measures += measures_of(case, rounds)
            result.ratios += duel(case, rounds, TASKS, BARE)
        with redis.Redis.from_url(server.url) as client:
            for key in client.scan_iter(f"{NAME}*", count=1000):
                client.unlink(key)
    for case in CALLS:
        progress(case)
        rounds = _in_turn(readers(case, settings.reads), settings.rounds)
        result.measures += measures_of(case, rounds)
        result.ratios += duel(case, rounds, MSGSPEC, PYDANTIC)
    return result


def _in_turn(turns: dict[str, Callable[[], T]], count: int) -> dict[str, list[T]]:
    """Run each contestant once to warm up, then ``count`` times."""
    for turn in turns.values():
        turn()
    return in_turns(turns, count)


def workers(url: str, messages: int) -> dict[str, dict[str, Callable[[], Both]]]:
    """Return the turns of the workers, by case and contestant."""
    bodies = [
        {"id": f"{n:016d}", "task": "few", "args": {"path": "a.png", "width": n}}
        for n in range(messages)
    ]

    def measured(work: Callable[[], None]) -> Callable[[], Both]:
        def turn() -> Both:
            with Queue.from_url(url, NAME) as queue:
                queue.push_many(bodies)
                CALLED.expect(messages)
                work()
                assert queue.stats().ready == 0
            wall, processor = CALLED.seconds, CALLED.processor
            return Round(messages, wall, math.nan), Round(messages, processor, math.nan)

        return turn

    def with_threads() -> None:
        with Tasks(url, queue=NAME) as tasks:
            tasks.task(name="few")(few)
            tasks.run(drain=True)

    def bare_threads() -> None:
        with Queue.from_url(url, NAME) as queue:
            Worker(queue, _nothing).run(drain=True)

    async def with_loop() -> None:
        async with AsyncTasks(url, queue=NAME) as tasks:
            tasks.task(name="few")(_few_async)
            await tasks.run(drain=True)

    async def bare_loop() -> None:
        async with AsyncQueue.from_url(url, NAME) as queue:
            await AsyncWorker(queue, _nothing_async).run(drain=True)

    return {
        "threads": {BARE: measured(bare_threads), TASKS: measured(with_threads)},
        "asyncio": {
            BARE: measured(lambda: asyncio.run(bare_loop())),
            TASKS: measured(lambda: asyncio.run(with_loop())),
        },
    }


def _nothing(message: Message) -> None:
    CALLED.note()


async def _nothing_async(message: Message) -> None:
    CALLED.note()


async def _few_async(path: str, width: int = 80) -> None:
    CALLED.note()


def readers(case: str, reads: int) -> dict[str, Callable[[], Round]]:
    """Return the turns that read the arguments of a message."""
    from pydantic import ConfigDict, TypeAdapter, with_config
    from typing_extensions import TypedDict

    function, values = CALLS[case]
    arguments = Arguments("t", function)
    written = arguments.encode(values, {})
    kinds = {name: kind for name, kind in _hints(function).items() if name != "return"}
    settings = ConfigDict(strict=True, extra="forbid")
    adapter: Any = TypeAdapter(with_config(settings)(TypedDict("Read", kinds)))  # type: ignore[operator]
    assert orjson.loads(written).keys() == adapter.validate_json(written).keys()

    def measured(read: Callable[[bytes], Any]) -> Callable[[], Round]:
        def turn() -> Round:
            began = time.perf_counter()
            for _ in range(reads):
                read(written)
            return Round(reads, time.perf_counter() - began, math.nan)

        return turn

    return {MSGSPEC: measured(arguments.decode), PYDANTIC: measured(adapter.validate_json)}


def _hints(function: Callable[..., None]) -> dict[str, Any]:
    from typing import get_type_hints

    return get_type_hints(function)
