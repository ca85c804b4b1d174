"""A drop-in client, its queue from outside, and consumers in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

import ackq
from ackq import dropin
from tests.dropin.seen import LEASE


@pytest.fixture
def r(plain_client: redis.Redis) -> Iterator[dropin.Redis]:
    with dropin.Redis(plain_client, visibility_timeout=LEASE) as r:
        yield r


@pytest.fixture
def queue(plain_client: redis.Redis, name: str) -> Iterator[ackq.Queue]:
    """The same queue, seen from outside."""
    with ackq.Queue(plain_client, name, visibility_timeout=LEASE) as queue:
        yield queue


PRELUDE = """
import os, signal, sys, threading, time
import redis
from ackq import dropin

r = dropin.Redis(redis.Redis.from_url(sys.argv[1]), visibility_timeout=0.6)
name = sys.argv[2]
"""


@pytest.fixture
def script(
    tmp_path: Path, plain_client: redis.Redis, url: str, name: str
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``script(text)``: a Python process that has ``r`` and ``name``, and 'a' on the list.

    ``first`` runs before anything is imported.
    """
    started = []

    def start(text: str, first: str = "") -> subprocess.Popen[str]:
        path = tmp_path / "consumer.py"
        path.write_text(first + PRELUDE + textwrap.dedent(text))
        plain_client.lpush(name, "a")
        command = [sys.executable, str(path), url, name]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
