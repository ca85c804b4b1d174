"""Errors: those that ``except redis.RedisError`` catches, and those at construction."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any
from unittest import mock

import pytest
import redis
import redis.asyncio

import ackq
import ackq.dropin.asyncio
from ackq import dropin
from tests.dropin.seen import settled

UNUSABLE = ["", "a\nb", "a" * 300, "xBACKUP", "xDEAD", "a*", "xCLAIM:y", "a\\", b"\xff"]


@pytest.mark.parametrize("name", UNUSABLE, ids=range(len(UNUSABLE)))
def test_names_that_ackq_cannot_use(r: dropin.Redis, name: str | bytes) -> None:
    for call in (r.rpop, r.brpop):
        with pytest.raises(redis.ResponseError, match="choose another name") as found:
            call(name)
        assert isinstance(found.value, dropin.ListNameRefused)
        assert isinstance(found.value, ackq.QueueNameError)
    # What needs no queue works as before.
    assert r.lpush(name, 1) == 1
    assert r.llen(name) == 1
    assert r.delete(name) == 1


def test_an_unusable_name_among_several_pops_nothing(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    r.lpush(name, "a")
    with pytest.raises(redis.ResponseError):
        r.brpop([name, "xBACKUP"], 1)
    assert queue.stats().ready == 1


def test_a_key_of_the_wrong_type(r: dropin.Redis, name: str) -> None:
    r.set(name, "text")
    for call in (r.rpop, r.brpop, r.llen):
        with pytest.raises(redis.ResponseError, match="is a string, not a list") as found:
            call(name)
        assert isinstance(found.value, ackq.KeyTypeError)
    assert r.get(name) == b"text"


def test_a_list_with_groups(r: dropin.Redis, name: str, plain_client: redis.Redis) -> None:
    with ackq.Queue(plain_client, name, groups=ackq.Groups("customer")) as queue:
        queue.push_many([{"id": "a"}, {"id": "b"}], group="c")
        (taken,) = queue.pop_many(1)
        for call in (r.rpop, r.brpop, r.lpop, r.blpop):
            with pytest.raises(redis.RedisError, match=r"has groups=Groups\(field='cust") as found:
                call(name)
            assert isinstance(found.value, dropin.Refused)
        assert queue.pop(ack=taken) is not None
        queue.purge()


def test_a_server_that_may_evict_messages(
    r: dropin.Redis, name: str, plain_client: redis.Redis
) -> None:
    plain_client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(redis.RedisError, match="allkeys-lru") as found:
            r.rpop(name)
        assert isinstance(found.value, dropin.Refused)
        assert isinstance(found.value.__cause__, ackq.EvictionPolicyError)
        assert r.llen(name) == 0
    finally:
        plain_client.config_set("maxmemory-policy", "noeviction")
    assert r.rpop(name) is None


def test_an_interrupted_wait_leaves_the_client_usable(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Interrupted):
            r.brpop(name, 30)
    finally:
        signal.signal(signal.SIGALRM, before)
    r.lpush(name, "a")
    assert r.brpop(name, 5) == (name.encode(), b"a")
    assert r.rpop(name) is None
    assert settled(queue)


def test_a_client_of_the_other_kind() -> None:
    with pytest.raises(ackq.ConfigurationError, match=r"ackq\.dropin\.asyncio\.Redis"):
        dropin.Redis(redis.asyncio.Redis(), hold=0)  # type: ignore[arg-type]
    with pytest.raises(ackq.ConfigurationError, match=r"redis\.client"):
        dropin.asyncio.Redis(redis.Redis(), hold=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        mock.Mock,
        lambda: mock.MagicMock(spec=redis.Redis),
        lambda: mock.create_autospec(redis.Redis),
    ],
    ids=["mock", "with a spec", "autospec"],
)
def test_a_mock_is_refused_with_a_way_out(make: Callable[[], Any]) -> None:
    stranger = make()
    with pytest.raises(ackq.ConfigurationError, match=r"fakeredis\[lua\]"):
        dropin.Redis(stranger, hold=0)
    with pytest.raises(ackq.ConfigurationError, match=r"fakeredis\[lua\]"):
        ackq.Queue(stranger, "jobs")


def test_settings_are_checked_at_once(plain_client: redis.Redis) -> None:
    with pytest.raises(ackq.ConfigurationError, match="visibility_timeout"):
        dropin.Redis(plain_client, visibility_timeout=0, hold=0)


def test_a_refusal_can_be_shown() -> None:
    for error in (dropin.Refused("text"), dropin.ListNameRefused("text")):
        assert type(error).__name__ in repr(error)
        assert str(error) == "text"
