"""What docs/moving-over.md and docs/dropin.md show: each loop before the change and after it."""

import asyncio
import contextlib
import logging
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
import redis
import redis.asyncio

import ackq
from ackq import dropin
from tests.faults.children import end, start
from tests.waiting import wait_until

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "moving-over.md").read_text()
#: The loops, by the headings of their sections; each is a diff of a whole program.
LOOPS = {
    heading: diff
    for heading, diff in re.findall(r"^## ([^\n]*)\n\n```diff\n(.*?)^```", PAGE, re.M | re.S)
    if "import redis" in diff
}
#: Those that hold messages; they begin where the client is made.
HOLDING = dict(re.findall(r"^### ([^\n]*)\n\n```diff\n(.*?)^```", PAGE, re.M | re.S))
#: Messages that a loop works on when it is killed, if not one.
AT_ONCE = {"A thread pool": 4}


def before(diff: str) -> str:
    return re.sub(r"^[ -]", "", re.sub(r"^\+.*\n", "", diff, flags=re.M), flags=re.M)


def after(diff: str) -> str:
    return re.sub(r"^[ +]", "", re.sub(r"^-.*\n", "", diff, flags=re.M), flags=re.M)


def at(address: dict[str, Any], original: Any) -> Any:
    """Return a client class whose default address is the test's server."""

    class Here(original):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **(address | kwargs))

    return Here


def consume(program: str, address: dict[str, Any], name: str, path: str) -> None:
    """Run a program of the guide. It works on a message that says "hold" until it is killed."""
    redis.Redis = at(address, redis.Redis)  # type: ignore[misc]
    redis.asyncio.Redis = at(address, redis.asyncio.Redis)  # type: ignore[misc]
    journal = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def work_on(raw: bytes) -> Any:
        os.write(journal, raw + b"\n")
        if "async " in program:
            return asyncio.sleep(3600 if raw.startswith(b"hold") else 0)
        if raw.startswith(b"hold"):
            threading.Event().wait()
        return None

    def store(rows: list[bytes]) -> None:
        for row in rows:
            work_on(row)

    scope = {"work_on": work_on, "store": store, "executor": ThreadPoolExecutor(4)}
    exec(compile(program.replace('"jobs', f'"{name}'), "the guide", "exec"), scope)


class Loop:
    """A loop of the guide, on lists of a test."""

    def __init__(
        self, diff: str, client: redis.Redis, name: str, journal: Path, at_once: int = 1
    ) -> None:
        self.diff = diff
        lists = dict.fromkeys(re.findall(r'"jobs([^"]*)"', self.diff))
        self.lists = [f"{name}{rest}" for rest in lists]
        self.end: Literal["left", "right"] = "left" if "blpop" in self.diff else "right"
        self.holding = [f"hold-{n}".encode() for n in range(at_once)]
        self._client, self._name, self._journal = client, name, journal

    def push(self) -> None:
        push = self._client.rpush if self.end == "left" else self._client.lpush
        push(self.lists[0], "quick-1", "quick-2")
        push(self.lists[-1], *self.holding)

    def kill(self, program: str) -> None:
        """Run a program until it holds every message that it can, and kill it."""
        settings = self._client.connection_pool.connection_kwargs
        address = {key: settings[key] for key in ("host", "port")}
        process = start(consume, program, address, self._name, str(self._journal))
        try:
            wait_until(lambda: set(self.holding) <= set(self.worked_on()), "the loop to work")
        finally:
            end(process)

    def worked_on(self) -> list[bytes]:
        return self._journal.read_bytes().split() if self._journal.exists() else []

    def in_flight(self) -> list[bytes]:
        with contextlib.ExitStack() as stack:
            queues = [
                stack.enter_context(ackq.Queue(self._client, each, pop_from=self.end))
                for each in self.lists
            ]
            return sorted(each.body for queue in queues for each in queue.peek(200, "in_flight"))


@pytest.mark.parametrize("heading", LOOPS)
def test_a_kill_loses_what_the_guide_says_and_nothing_after_the_change(
    plain_client: redis.Redis, name: str, tmp_path: Path, heading: str
) -> None:
    at_once = AT_ONCE.get(heading, 1)
    loop = Loop(LOOPS[heading], plain_client, name, tmp_path / "journal", at_once)
    loop.push()
    loop.kill(before(loop.diff))
    assert plain_client.keys(f"{name}*") == []  # lost
    (tmp_path / "journal").unlink()
    loop.push()
    loop.kill(after(loop.diff))
    assert sorted(loop.worked_on()) == [*loop.holding, b"quick-1", b"quick-2"]
    assert loop.in_flight() == loop.holding


@pytest.mark.parametrize("heading", HOLDING)
def test_a_loop_that_holds_messages_loses_none_after_the_change(
    plain_client: redis.Redis, name: str, tmp_path: Path, heading: str
) -> None:
    loop = Loop(HOLDING[heading], plain_client, name, tmp_path / "journal")
    others = [b"row-%d" % number for number in range(99)]
    unfinished = loop.holding + (others if heading == "Messages that are collected" else [])
    for change, kept in ((before, []), (after, sorted(unfinished))):
        plain_client.lpush(name, *others, *loop.holding)
        loop.kill("import redis, ackq.dropin\n" + change(loop.diff))
        wait_until(lambda kept=kept: loop.in_flight() == kept, "the others to be settled")  # type: ignore[misc]
        assert not plain_client.exists(name)
        (tmp_path / "journal").unlink()


def test_the_loops_of_the_table_are_all_there() -> None:
    table = PAGE[PAGE.index("| your consumer") : PAGE.index("## A BRPOP loop")]
    anchors = re.findall(r"\]\(#([\w-]+)\)", table)
    headings = re.findall(r"^###? (.*)$", PAGE, re.MULTILINE)
    assert {
        re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings
    } >= set(anchors)
    assert len(LOOPS) == 6


def test_going_back_runs_as_shown(
    plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = plain_client.connection_pool.connection_kwargs
    monkeypatch.setattr(redis, "Redis", at({k: settings[k] for k in ("host", "port")}, redis.Redis))
    with ackq.Queue(plain_client, name) as queue:
        queue.push(b"a")
        queue.pop()
        _, example = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
        exec(example.replace('"jobs"', repr(name)), {"ackq": ackq, "redis": redis})
        assert plain_client.llen(name) == 1


def test_what_other_processes_finish_is_settled_as_shown(
    plain_client: redis.Redis, name: str
) -> None:
    """What they fail on stays leased."""
    example, _ = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    plain_client.lpush(name, "1", "x")
    with dropin.Redis(plain_client, hold=100) as r, ThreadPoolExecutor(1) as executor:
        for raw in r.rpop(name, 2):
            known = {"executor": executor, "work_on": int, "raw": raw, "r": r}
            exec(example.replace('"jobs"', repr(name)), known)
        executor.shutdown()
        with ackq.Queue(plain_client, name) as queue:
            assert [message.body for message in queue.peek(2, "in_flight")] == [b"x"]


class End(BaseException):
    """Ends a loop that an example runs for ever."""


def test_the_examples_of_dropin_run(
    plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the examples of docs/dropin.md."""
    settings = plain_client.connection_pool.connection_kwargs
    address = {key: settings[key] for key in ("host", "port")}
    monkeypatch.setattr(redis, "Redis", at(address, redis.Redis))
    done: list[bytes] = []

    def work_on(raw: bytes | None) -> None:
        if raw is None:
            raise End
        done.append(raw)
        if raw == b"bad":
            raise ValueError(raw)

    examples = re.findall(r"^```python\n(.*?)^```", (DOCS / "dropin.md").read_text(), re.M | re.S)
    # That one runs in test_fakeredis.py.
    examples = [each for each in examples if "fakeredis" not in each]
    assert len(examples) == 3
    with dropin.Redis(redis.Redis(), hold=0) as r:
        r.lpush(name, "good", "bad", "better")
        scope = {
            "ackq": ackq,
            "redis": redis,
            "log": logging.getLogger(__name__),
            "r": r,
            "stopping": True,
            "work_on": work_on,
            "store": done.extend,
        }
        for number, example in enumerate(examples):
            if number == 2:
                r.lpush(name, "row")
            with contextlib.suppress(End):
                text = example.replace('"jobs"', repr(name))
                exec(compile(text, f"docs/dropin.md example {number}", "exec"), scope)
    assert done == [b"good", b"bad", b"better", b"row"]
    with ackq.Queue(plain_client, name) as queue:
        assert (queue.stats().ready, queue.stats().in_flight) == (0, 0)
