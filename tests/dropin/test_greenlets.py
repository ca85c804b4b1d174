"""Greenlets that share a client: a message belongs to the greenlet that popped it."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

import ackq
from ackq import dropin
from tests.dropin.seen import LEASE, come_back, in_flight, settled
from tests.waiting import wait_until

gevent: Any = pytest.importorskip("gevent")


def test_a_message_belongs_to_the_greenlet_that_popped_it(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    seen = []

    def first() -> None:
        assert r.rpop(name) == b"a"
        gevent.sleep(0)
        seen.append(in_flight(queue))

    def second() -> None:
        assert r.rpop(name) == b"b"
        assert r.rpop(name) is None
        seen.append(in_flight(queue))

    r.lpush(name, "a", "b")
    gevent.joinall([gevent.spawn(first), gevent.spawn(second)], raise_error=True)
    assert seen == [[b"a"], [b"a"]]
    wait_until(lambda: settled(queue), "the ended greenlet's message to be settled")


def test_a_greenlet_that_is_killed_gives_its_message_back(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    def consume() -> None:
        r.rpop(name)
        gevent.sleep(60)

    r.lpush(name, "a")
    greenlet = gevent.spawn(consume)
    gevent.sleep(0)
    assert queue.pop(timeout=2 * LEASE) is None  # its lease is renewed
    greenlet.kill()
    assert come_back(queue) == b"a"


def test_leases_are_renewed_in_a_patched_program(
    script: Callable[..., subprocess.Popen[str]], queue: ackq.Queue
) -> None:
    process = script(
        """
        import gevent

        def consume():
            raw = r.rpop(name)
            print(flush=True)
            gevent.sleep(60)

        gevent.spawn(consume).join()
        """,
        first="from gevent import monkey; monkey.patch_all()",
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert queue.pop(timeout=3 * LEASE) is None
    process.kill()
    assert come_back(queue) == b"a"
