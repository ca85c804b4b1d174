"""Each test runs on a queue that is popped from one end: which one, the run's seed decides."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest

from ackq.config import PopFrom
from tests.conftest import MakeQueue
from tests.servers import Target


@pytest.fixture
def pop_from(request: pytest.FixtureRequest) -> PopFrom:
    """The end that is popped; the same for a seed of pytest-randomly, which is printed."""
    seed = request.config.getoption("randomly_seed", 0)
    end: PopFrom = "left" if crc32(f"{seed} {request.node.nodeid}".encode()) % 2 else "right"
    print(f"pop_from={end!r}")  # pytest shows it if the test fails
    return end


@pytest.fixture
def make_queue(make_queue: MakeQueue, pop_from: PopFrom) -> MakeQueue:
    """As everywhere, for queues that are popped from `pop_from`."""
    return lambda *args, **settings: make_queue(*args, **{"pop_from": pop_from, **settings})


@pytest.fixture
def push_plainly(target: Target, name: str, pop_from: PopFrom) -> Callable[..., Any]:
    """``push_plainly(*bodies)``: push as a producer does that knows nothing of ackq."""
    push = target.control.lpush if pop_from == "right" else target.control.rpush
    return lambda *bodies: push(name, *bodies)
