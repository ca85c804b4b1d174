"""Messages that end their processes, among innocent ones: nobody else dies, and nothing is lost.

``ACKQ_SOAK=20`` makes it twenty rounds of each.
"""

import contextlib
import itertools
import os
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

import ackq
from ackq import Groups
from ackq.embedded import Server
from ackq.sharded import ShardedQueue
from tests.waiting import wait_until
from tests.worker.conftest import settled

from .commands import working

ROUNDS = int(os.environ.get("ACKQ_SOAK", "1"))
LIMIT = 2
#: A message that holds Python's lock for ever, beside the killers, and the limits that end it.
HOLDER = {"id": "holder", "way": "lock"}
LIMITS = ("--time-limit", "3", "--kill-after", "1")


@dataclass(frozen=True)
class Case:
    """One arrangement."""

    name: str
    killers: int = 2
    innocents: int = 12
    queues: int = 1
    handler: str = "handle"
    concurrency: int = 16
    processes: int = 1
    sharded: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.01
    delay: float | None = None
    more: tuple[dict[str, Any], ...] = ()
    options: tuple[str, ...] = ()

    def made(self, server: Server, name: str) -> Any:
        if self.sharded:
            queue: Any = ShardedQueue(
                redis.Redis.from_url(server.url), name, 3, **self.settings, visibility_timeout=600
            )
        else:
            queue = ackq.Queue.from_url(server.url, name, **self.settings, visibility_timeout=600)
        queue.pop()  # records its groups
        return queue

    def messages(self, draw: random.Random) -> list[dict[str, Any]]:
        innocents = [{"id": f"i{n}", "seconds": self.seconds} for n in range(self.innocents)]
        killers = [{"id": f"killer{n}", "way": "exit"} for n in range(self.killers)]
        several: list[dict[str, Any]] = [*innocents, *killers, *self.more]
        draw.shuffle(several)
        return [
            {**each, "task": "killing", "args": {}, "group": f"g{n % 5}"}
            for n, each in enumerate(several)
        ]


_AMONG = itertools.cycle([(1, 12, 1), (2, 200, 2), (2, 12, 1), (1, 200, 2)])
_HOW = [("handle", 1), ("handle_async", 1), ("handle", 3)]
CASES = [
    Case(
        f"{killers} of {innocents} in {queues}, {handler}, {processes} x {concurrency}",
        *(killers, innocents, queues, handler, concurrency, processes),
    )
    for (handler, processes), concurrency in itertools.product(_HOW, (1, 4, 16))
    for killers, innocents, queues in (next(_AMONG), next(_AMONG))
] + [
    Case("groups", settings={"groups": Groups("group", in_flight=1)}, innocents=60),
    Case("a sharded queue", sharded=True, innocents=60, handler="handle_async"),
    Case("sharded groups", sharded=True, settings={"groups": Groups("group")}, innocents=60),
    Case("with a delay", delay=0.5, innocents=60),
    Case("tasks", handler="TASKS", innocents=60),
    Case("64 suspects", killers=1, innocents=63, concurrency=64, seconds=0.1),
    Case("a handler that holds Python's lock", more=(HOLDER,), options=LIMITS),
]
#: The ordinary run has one.
QUICK = "2 of 12 in 1, handle_async, 1 x 16"


@pytest.mark.timeout(500 * ROUNDS)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name == QUICK else pytest.mark.campaign)
        for case in CASES
    ],
)
def test_killers_die_alone(tmp_path: Path, server: Server, token: str, case: Case) -> None:
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        run(case, server, f"{token}-{number}", folder, random.Random(number))


def run(case: Case, server: Server, token: str, folder: Path, draw: random.Random) -> None:
    with contextlib.ExitStack() as stack:
        names = [f"{token}-{n}" for n in range(case.queues)]
        queues = [stack.enter_context(case.made(server, name)) for name in names]
        pushed = [case.messages(draw) for _ in queues]
        for queue, messages in zip(queues, pushed, strict=True):
            queue.push_many(messages, delay=case.delay)
        options = (
            *itertools.chain.from_iterable(("-q", name) for name in names),
            *("--max-receives", str(LIMIT), "--lease", "600", *case.options),
            *("--concurrency", str(case.concurrency), "--processes", str(case.processes)),
        )
        handler = f"tests.process.killers:{case.handler}"
        with working(folder, server.url, handler, *options) as command:
            wait_until(lambda: all(map(settled, queues)), "the end of all", 400)
        # What the supervisor kills on purpose does not count.
        killed = {int(pid) for pid in re.findall(r"process (\d+): .* killed", command.log())}
        begins = (event for event in command.events("begin") if event["pid"] not in killed)
        begun = Counter(event["id"] for event in begins)
        ended = Counter(event["id"] for event in command.events("end"))
        for queue, messages in zip(queues, pushed, strict=True):
            dead = {letter.id: letter for letter in queue.dead_letters(300)}
            fatal = {each["id"] for each in messages if "way" in each}
            assert dead.keys() == fatal, command.log()
            for letter in dead.values():
                if letter.id != HOLDER["id"]:
                    assert letter.reason == letter.cause == "ended its process, exit code 9"
                    assert letter.receive_count == LIMIT
        for each in itertools.chain.from_iterable(pushed):
            if "way" not in each:
                assert ended[each["id"]] >= len(queues), f"{each['id']} is lost"
            elif each["id"] != HOLDER["id"]:
                # Once beside others, then each permitted delivery alone.
                assert begun[each["id"]] <= (LIMIT + 1) * len(queues)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("handler", "way"),
    [
        *itertools.product(("handle", "handle_async"), ("supervisor", "descriptors")),
        ("handle_async", "loop"),
    ],
)
def test_a_handler_that_harms_its_worker_and_ends_is_acked(
    tmp_path: Path, server: Server, token: str, handler: str, way: str
) -> None:
    with ackq.Queue.from_url(server.url, token) as queue:
        queue.push_many({"id": f"m{n}", "seconds": 0.2} for n in range(6))
        queue.push({"id": "crooked", "way": way})
        options = ("-q", token, "--lease", "600")
        with working(tmp_path, server.url, f"tests.process.killers:{handler}", *options) as command:
            wait_until(lambda: settled(queue), "the end of all", 120)
            assert (command.process.poll() is not None) == (way == "supervisor")
        ended = Counter((event["id"], event["count"]) for event in command.events("end"))
        assert ended == {("crooked", 1): 1, **{(f"m{n}", 1): 1 for n in range(6)}}
        assert queue.stats().dead == 0


@pytest.mark.campaign
def test_a_stop_ends_a_suspect_that_holds_pythons_lock_and_gives_it_back_uncounted(
    tmp_path: Path, server: Server, token: str
) -> None:
    with ackq.Queue.from_url(server.url, token) as queue:
        queue.push({"id": "holder", "way": "lock", "seconds": 1.0})
        queue.push({"id": "killer", "way": "exit", "seconds": 0.3})
        options = ("-q", token, "--lease", "600", "--grace", "1.5")
        with working(tmp_path, server.url, "tests.process.killers:handle", *options) as command:

            def runs_again() -> bool:
                return [each["id"] for each in command.events("begin")].count("holder") == 2

            wait_until(runs_again, "the holder as a suspect", 120)
            command.process.terminate()
            assert command.wait(60) == 0
            assert command.log().count("does not end: killing it") == 1
        stats = queue.stats()
        assert (stats.in_flight, stats.dead) == (0, 0)
        queue.run_now(ids=["killer"])
        counts = {message.id: message.receive_count for message in queue.pop_many(2)}
        assert counts["holder"] == 1
        assert counts["killer"] <= 2
