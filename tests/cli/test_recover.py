"""``ackq recover``: it counts, asks, moves, and survives being killed."""

import os
import signal
import subprocess
import sys

import pytest
import redis

from tests import forked
from tests.cli.conftest import Run
from tests.cli.terminal import CODE
from tests.waiting import wait_until


@pytest.fixture
def client(plain_client: redis.Redis) -> redis.Redis:
    """A client of the server that the command uses."""
    return plain_client


def test_a_dry_run_only_counts(ackq: Run, client: redis.Redis, name: str) -> None:
    client.lpush(f"{name}:processing", "a", "b")
    done = ackq("recover", name, f"{name}:processing", f"{name}:none", "--dry-run")
    assert done.stdout == f"{name}:processing\t2\n{name}:none\t0\n"
    assert not client.exists(name)


def test_nothing_moves_without_consent(ackq: Run, client: redis.Redis, name: str) -> None:
    client.lpush(f"{name}:processing", "a", "b")
    ackq("recover", name, f"{name}:processing", code=2)
    assert not client.exists(name)
    assert ackq("recover", name, f"{name}:processing", "--yes").stdout == "2\n"
    assert client.lrange(name, 0, -1) == [b"b", b"a"]


def test_a_queue_that_is_no_list_leaves_all_where_it_is(
    ackq: Run, client: redis.Redis, name: str
) -> None:
    client.lpush(f"{name}:processing", *range(3))
    client.set(name, "not a list")
    refused = ackq("recover", name, f"{name}:processing", "--yes", code=3)
    assert "is a string, not a list" in refused.stderr
    assert client.llen(f"{name}:processing") == 3


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_a_killed_recovery_loses_and_doubles_nothing(
    client: redis.Redis, name: str, url: str, share: float
) -> None:
    number = 6_000
    bodies = [b'{"id":%d}' % each for each in range(number)]
    client.lpush(name, b"before")
    client.lpush(f"{name}:processing", *bodies)
    command = ("recover", name, f"{name}:processing", "--yes", "--url", url)
    process = forked.Popen([sys.executable, "-c", CODE, *command], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: client.llen(f"{name}:processing") < number * share, "it to get so far")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    left = client.llen(f"{name}:processing")
    assert 0 < left < number
    assert client.llen(name) == number - left + 1
    forked.run([sys.executable, "-c", CODE, *command], check=True, stdout=subprocess.DEVNULL)
    arrived = client.lrange(name, 0, -1)
    assert arrived == [b"before", *bodies[::-1]]  # the right end is the front
