"""Loops of the shapes that people write, each killed while it works."""

import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.dropin import shapes
from tests.dropin.holding_loops import HOLDING, MORE_THAN_UNFINISHED
from tests.dropin.shapes import SHAPES, Journal, holding
from tests.faults.children import end, start
from tests.waiting import wait_until

#: Messages that nothing is killed at.
MORE = 10


class Killed:
    """A loop that is started and killed again and again.

    Its leases end with it, not with time: so what is redelivered comes first, and nothing else is.
    """

    def __init__(
        self,
        shape: str,
        client: redis.Redis,
        url: str,
        names: list[str],
        path: Path,
        protected: bool,
    ) -> None:
        self.journal = Journal(path)
        self._shape = SHAPES[shape]
        self._role = (shapes.run, shape, url, names, path, protected)
        self._client, self._names = client, names
        self._push = getattr(client, SHAPES[shape].push)

    def push(self, n: int, body: str) -> list[str]:
        bodies = [f"{body}-{number}" for number in range(n)]
        for number, each in enumerate(bodies):
            self._push(self._names[number % len(self._names)], each)
        return bodies

    def kill(self, begun: int) -> None:
        """Run the loop until it has begun ``begun`` messages that hold it, and kill it."""
        self._run(lambda: self._holding() >= begun, f"{begun} messages to be begun")

    def push_finished(self) -> list[str]:
        """Push as many messages as one kill may repeat; the loop does not go on after the last."""
        n = self._shape.repeats
        collected = self.push(n - 1 if self._shape.collects else 0, "collected")
        return collected + self.push(n - len(collected), "finish")

    def _holding(self) -> int:
        return len({each for each in self.journal.begun() if each.startswith("hold")})

    def finish(self, ready: set[str], repeated: Sequence[str] = ()) -> set[str]:
        """Run the loop until all of ``ready`` are done, and ``repeated`` twice; return the done."""
        wanted = Counter([*ready, *repeated])
        self._run(lambda: wanted <= Counter(self.journal.done()), "all messages to be done")
        return set(self.journal.done())

    def _run(self, condition: Callable[[], bool], description: str) -> None:
        process = start(*self._role)
        try:
            wait_until(condition, description)
        finally:
            # The group too: a forked child would go on alone.
            os.killpg(process.pid or 0, signal.SIGKILL)
            end(process)
            for leases in (e for name in self._names for e in self._client.keys(f"{name}*BACKUP")):
                held: Any = self._client.zrange(leases, 0, -1)
                self._client.zadd(leases, dict.fromkeys(held, 1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kills", [1, pytest.param(50, marks=pytest.mark.campaign)])
def test_a_loop_that_is_killed_loses_nothing_and_repeats_what_the_page_says(
    plain_client: redis.Redis, url: str, name: str, tmp_path: Path, shape: str, kills: int
) -> None:
    """Killed at work, and at last when the work is done and nothing else was asked for."""
    if shape == "greenlets":
        pytest.importorskip("gevent")
    at_once = SHAPES[shape].at_once
    names = [f"{name}-{number}" for number in range(SHAPES[shape].lists)]
    loop = Killed(shape, plain_client, url, names, tmp_path / "journal", True)
    pushed = set(loop.push(MORE, "more"))
    for killed in range(1, kills + 1):
        pushed.update(loop.push(at_once, f"hold-{killed}"))
        loop.kill(killed * at_once)
    finished = loop.push_finished()
    loop.finish(set(finished))
    pushed.update(finished)
    # Which of the others are of the last second depends on time.
    assert loop.finish(pushed, repeated=finished[-1:] if shape == "by time" else finished) == pushed
    if shape not in ("by time", "processing list"):  # the latter has tests of its own
        repeated = len(loop.journal.done()) - len(pushed)
        assert len(finished) <= repeated <= (kills + 1) * len(finished)


@pytest.mark.parametrize("shape", ["blocking", "append", "executor.map"])
def test_the_same_loop_on_a_bare_client_loses_what_it_works_on(
    plain_client: redis.Redis, url: str, name: str, tmp_path: Path, shape: str
) -> None:
    loop = Killed(shape, plain_client, url, [name], tmp_path / "journal", False)
    held = set(loop.push(1, "hold"))
    loop.kill(1)
    more = set(loop.push(MORE, "more"))
    assert not held <= loop.finish(more)


def test_the_page_lists_the_loops_that_are_killed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "moving-over.md").read_text()
    table = page[page.index("| loop | declare | twice |") :]
    rows = table[: table.index("\n\n")].splitlines()[2:]
    found = [re.search(r"hold=([\d_]+)(?:, for_=(\d+))?.*\| (\w+)[^|]* \|$", row) for row in rows]
    assert [
        (int(each[1].replace("_", "")) > 1000, each[2] is not None, each[3] == each[1])
        for each in found
        if each
    ] == [
        (hold == MORE_THAN_UNFINISHED, for_ is not None, holding(loop).collects and for_ is None)
        for loop, (_, hold, for_) in HOLDING.items()
    ]
