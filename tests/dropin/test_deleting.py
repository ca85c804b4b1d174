"""Deleting, renaming and expiring a list whose messages are in flight."""

from collections.abc import Callable
from typing import Any

import pytest
import redis

import ackq
from ackq import dropin
from tests.dropin.seen import LEASE, come_back, in_flight
from tests.waiting import wait_until

DELETIONS: dict[str, Callable[[Any, str], object]] = {
    "delete": lambda r, name: r.delete(name),
    "delete of several": lambda r, name: r.delete(f"{name}-other", name.encode()),
    "del": lambda r, name: r.__delitem__(name),
    "unlink": lambda r, name: r.unlink(name),
    "flushdb": lambda r, name: r.flushdb(),
    "flushall": lambda r, name: r.flushall(asynchronous=True),
}


@pytest.mark.parametrize("deletion", DELETIONS.values(), ids=list(DELETIONS))
def test_nothing_comes_back_after_a_deletion(
    r: dropin.Redis,
    name: str,
    queue: ackq.Queue,
    caplog: pytest.LogCaptureFixture,
    deletion: Callable[[Any, str], object],
) -> None:
    r.lpush(name, "a", "b", "c")
    r.rpop(name)
    deletion(r, name)
    assert not r.keys(f"{name}*")
    # The lease would have ended in the meantime. One wait is enough for all of them.
    assert deletion is not DELETIONS["delete"] or queue.pop(timeout=2 * LEASE) is None
    assert r.rpop(name) is None
    assert not caplog.records


def test_everything_that_ackq_keeps_is_deleted(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    """Also what other consumers have in flight, delayed messages and dead letters."""
    queue.push_many([{"id": n} for n in range(3)])
    queue.reject(*queue.pop_many(1))
    queue.nack(*queue.pop_many(1), delay=60)
    queue.pop_many(1)
    with dropin.Redis(plain_client, hold=0) as r:
        assert r.delete(name) == 0
    assert not plain_client.keys(f"{name}*")


def test_keys_that_are_not_ackqs_stay(r: dropin.Redis, name: str) -> None:
    r.set(name, "text")
    r.set(f"{name}BACKUP", "a backup of the user's own")
    assert r.delete(name) == 1
    assert r.get(f"{name}BACKUP") == b"a backup of the user's own"


def test_a_deletion_of_other_keys_costs_one_round_trip(
    r: dropin.Redis, name: str, plain_client: redis.Redis
) -> None:
    def round_trips() -> int:
        return int(plain_client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])

    before = round_trips()
    r.mset({f"{name}-1": 1, f"{name}-2": 2})
    assert r.delete(f"{name}-1", f"{name}-2", f"{name}-3") == 2
    assert round_trips() == before


def test_a_single_connection_deletes_in_its_own_database(r: dropin.Redis, name: str) -> None:
    with r.client() as one:
        one.execute_command("SELECT", 1)
        one.set(name, "text")
        assert one.delete(name) == 1
        one.execute_command("SELECT", 0)
        one.lpush(name, "a", "b")
        one.rpop(name)
        assert one.delete(name) == 1
        assert not one.keys(f"{name}*")


def test_a_user_who_may_not_look_deletes_all_the_same(
    r: dropin.Redis, name: str, plain_client: redis.Redis
) -> None:
    plain_client.acl_setuser(
        name, enabled=True, nopass=True, keys=[name], commands=["+del", "+set", "+exists"]
    )
    try:
        kwargs = plain_client.connection_pool.connection_kwargs
        where = {key: value for key, value in kwargs.items() if key in ("host", "port", "path")}
        for single in (False, True):
            pool = redis.ConnectionPool(
                plain_client.connection_pool.connection_class,
                username=name,
                password="x",
                **where,
            )
            user = redis.Redis(connection_pool=pool, single_connection_client=single)
            with dropin.Redis(user, hold=0) as limited:
                limited.set(name, "text")
                assert limited.delete(name) == 1
            pool.disconnect()
    finally:
        plain_client.acl_deluser(name)


@pytest.mark.parametrize("change", ["rename", "renamenx", "expire"])
def test_renaming_and_expiring_concern_what_waits_in_the_list(
    r: dropin.Redis, name: str, queue: ackq.Queue, change: str
) -> None:
    r.lpush(name, "a", "b")
    r.rpop(name)
    if change == "expire":
        r.pexpire(name, 1)
        wait_until(lambda: not r.exists(name), "the list to expire")
    else:
        getattr(r, change)(name, f"{name}-new")
        assert r.rpop(f"{name}-new") == b"b"
    assert in_flight(queue) == [b"a"]
    assert r.rpop(name) is None
    assert not r.keys(f"{name}[BC]*")
    r.lpush(name, "c")
    r.rpop(name)
    r._ackq.forget()  # as if the process were killed
    if change == "expire":
        r.expire(name, 1)
    assert come_back(queue) == b"c"
