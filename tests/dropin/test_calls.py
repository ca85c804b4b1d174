"""The signatures and return shapes of redis-py."""

import time
from typing import Any

import pytest
import redis

import ackq
from ackq import dropin
from tests.dropin.seen import LEASE, come_back, settled
from tests.waiting import wait_until


def test_what_it_refuses_redis_refuses_too(r: dropin.Redis, name: str) -> None:
    for count in (-1, 2**63, 1.5, "x"):
        with pytest.raises(redis.ResponseError, match="must be positive"):
            r.rpop(name, count)  # type: ignore[arg-type]
    with pytest.raises(redis.ResponseError, match="timeout is negative"):
        r.brpop(name, -1)
    with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
        r.brpop([])


def test_the_clients_decoding_is_honoured(plain_client: redis.Redis, name: str) -> None:
    kwargs = plain_client.connection_pool.connection_kwargs | {"decode_responses": True}
    kind = plain_client.connection_pool.connection_class
    pool = redis.ConnectionPool(connection_class=kind, **kwargs)
    with dropin.Redis(redis.Redis(connection_pool=pool), hold=0) as r:
        r.lpush(name, "ä", "b", "c")
        assert r.rpop(name) == "ä"
        assert r.rpop(name, 1) == ["b"]
        assert r.brpop(name) == (name, "c")


def test_a_body_that_cannot_be_decoded_is_not_settled(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    kwargs = plain_client.connection_pool.connection_kwargs | {"decode_responses": True}
    kind = plain_client.connection_pool.connection_class
    pool = redis.ConnectionPool(connection_class=kind, **kwargs)
    with dropin.Redis(redis.Redis(connection_pool=pool), visibility_timeout=LEASE, hold=0) as r:
        r.lpush(name, b"\xff")
        with pytest.raises(UnicodeDecodeError):
            r.rpop(name)
        assert r.rpop(name) is None
    assert come_back(queue) == b"\xff"


def test_everything_else_is_the_clients(r: dropin.Redis, name: str) -> None:
    assert r.ping()
    assert r.rpush(name, "a") == 1
    pipeline = r.pipeline()
    pipeline.rpush(name, 1, 2)
    assert pipeline.execute() == [3]
    with pytest.raises(AttributeError):
        r.no_such_command  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"{", b'{"id":1}', b'{"id":null}', b"\xff\xfe\n", b"x" * (2 * 1024 * 1024)],
    ids=["empty", "NUL", "brace", "id", "null-id", "bytes", "2 MiB"],
)
def test_any_body_passes_byte_for_byte(
    r: dropin.Redis, name: str, queue: ackq.Queue, body: bytes
) -> None:
    r.lpush(name, body, body)
    assert [r.rpop(name), r.rpop(name), r.rpop(name)] == [body, body, None]
    assert settled(queue)


def test_a_count_is_never_cut_short(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    r.lpush(name, *range(2500))
    assert r.rpop(name, 2400) == [b"%d" % n for n in range(2400)]
    r.lpush(name, *[b"x" * 4_000_000] * 4)
    assert len(r.rpop(name, 104)) == 104
    assert r.rpop(name) is None
    assert settled(queue)


def test_the_first_messages_of_a_long_take_are_renewed_meanwhile(
    r: dropin.Redis, name: str, queue: ackq.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, begin = r._ackq.queue(name), time.monotonic()
    take = ours.pop_many

    def slowly(wanted: int, *args: Any, **options: Any) -> Any:
        wait = 0 if wanted == 1000 else 2 * LEASE
        wait_until(lambda: time.monotonic() > begin + wait, "the leases to end")
        return take(wanted, *args, **options)

    monkeypatch.setattr(ours, "pop_many", slowly)
    r.lpush(name, *range(1200))
    assert r.rpop(name, 1200) == [b"%d" % n for n in range(1200)]
    assert r.rpop(name) is None
    assert settled(queue)


def test_a_list_that_was_only_waited_for_leaves_no_key(r: dropin.Redis, name: str) -> None:
    assert r.brpop(name, 1.2) is r.brpop([f"{name}-2", f"{name}-3"], 0.3) is None
    assert not r.keys(f"{name}*")
