"""`lpop` and `blpop`: what holds for the right end of a list holds for the left end."""

import subprocess
import warnings
from collections.abc import Callable, Iterator

import pytest
import redis
import redis.asyncio

import ackq
import ackq.dropin.asyncio
from ackq import dropin
from tests.dropin.seen import LEASE
from tests.waiting import wait_until


@pytest.fixture
def queue(plain_client: redis.Redis, name: str) -> Iterator[ackq.Queue]:
    """The same queue, seen from outside."""
    with ackq.Queue(plain_client, name, visibility_timeout=LEASE, pop_from="left") as queue:
        yield queue


def test_a_kill_returns_messages_in_order(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue, r: dropin.Redis, name: str
) -> None:
    r.rpush(name, "0")
    process = script("r.rpush(name, 'b'); print(r.lpop(name, 2), flush=True); time.sleep(60)")
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    wait_until(lambda: queue.stats().expired == 2, "the leases to end")
    assert r.llen(name) == 3
    assert sorted(r.lpop(name, 2) or []) == [b"0", b"a"]
    assert r.lpop(name) == b"b"


def test_a_deletion_removes_the_record_of_the_end(r: dropin.Redis, name: str) -> None:
    r.rpush(name, "a")
    assert [r.lpop(name), r.lpop(name)] == [b"a", None]
    assert r.keys(f"{name}*")
    assert r.delete(name) == 0
    assert not r.keys(f"{name}*")
    r.lpush(name, "b")  # now the other end
    assert r.rpop(name) == b"b"


@pytest.mark.parametrize(
    ("first", "second"),
    [("lpop", "rpop"), ("rpop", "lpop"), ("blpop", "brpop"), ("brpop", "blpop")],
)
def test_the_other_end_is_as_unsafe_as_before_and_reported(
    r: dropin.Redis, name: str, first: str, second: str
) -> None:
    r.rpush(name, 1, 2, 3)
    getattr(r, first)(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        popped = [getattr(r, second)(name) for _ in range(2)]
    left = [b"1", b"2", b"3"][slice(None, -1) if first.endswith("rpop") else slice(1, None)]
    expected = left if second.endswith("lpop") else left[::-1]
    assert popped == [(name.encode(), e) if second[0] == "b" else e for e in expected]
    (report,) = caught
    assert report.category is dropin.UnprotectedWarning
    assert str(report.message).startswith(f"{second} pops from one end of {name!r}")
    assert report.filename == __file__
    assert getattr(r, first)(name, **({"timeout": 0.05} if first[0] == "b" else {})) is None


def test_the_other_end_among_several_lists_is_refused(r: dropin.Redis, name: str) -> None:
    r.rpush(name, 1, 2)
    r.lpop(name)
    with pytest.raises(redis.ResponseError, match="popped from the left"):
        r.brpop([f"{name}-2", name], 1)
    r.delete(name)
