"""It is a redis-py client: of the same class, with everything that the wrapped client can do."""

import copy
import pickle
from typing import Any
from unittest import mock

import pytest
import redis
import redis.asyncio

import ackq
import ackq.dropin.asyncio
from ackq import dropin
from ackq.dropin import client, client_async
from tests.dropin.seen import LEASE, settled


class OfTheUser(redis.Redis):
    """A client that a user has extended."""

    def greeting(self) -> str:
        return f"hello {self.get('name')!r}"


class InSlots(redis.Redis):
    """As redis-py's cluster client for asyncio does."""

    __slots__ = ("farewell", "greeting")
    farewell: str
    greeting: str


def test_it_is_an_instance_of_the_clients_class(plain_client: redis.Redis) -> None:
    pool = plain_client.connection_pool
    for plain in (plain_client, OfTheUser(connection_pool=pool)):
        r = dropin.Redis(plain, hold=0)
        assert isinstance(r, dropin.Redis)
        assert isinstance(r, type(plain))
        # What help() and an editor show.
        assert (type(r).__name__, type(r).__doc__) == ("Redis", dropin.Redis.__doc__)
    assert isinstance(r, OfTheUser)
    assert r.greeting() == "hello None"
    awaited = redis.asyncio.Redis()
    assert isinstance(dropin.asyncio.Redis(awaited, hold=0), redis.asyncio.Redis)


def test_it_has_what_the_client_keeps_in_slots(plain_client: redis.Redis) -> None:
    client = InSlots(connection_pool=plain_client.connection_pool)
    client.greeting = "hello"
    assert dropin.Redis(client, hold=0).greeting == "hello"  # type: ignore[attr-defined]


def test_subscripts_and_membership(r: dropin.Redis, name: str) -> None:
    r[name] = "a"
    assert r[name] == b"a"
    assert name in r
    del r[name]
    assert name not in r
    with pytest.raises(KeyError):
        r[name]


def test_pipelines_transactions_locks_and_scripts(r: dropin.Redis, name: str) -> None:
    with r.pipeline() as pipeline:
        pipeline.lpush(name, "a", "b")
        pipeline.lrange(name, 0, -1)
        assert pipeline.execute() == [2, [b"b", b"a"]]

    def count(pipe: Any) -> None:
        pipe.multi()
        pipe.llen(name)

    assert r.transaction(count, name) == [2]
    with r.lock(f"{name}-lock", timeout=5) as lock:
        assert lock.owned()
    assert r.register_script("return redis.call('LLEN', KEYS[1])")(keys=[name]) == 2
    with r.client() as one:
        assert isinstance(one, dropin.Redis)
        assert one.rpop(name) == b"a"
    assert r.rpop(name) == b"b"


def test_copies_hold_nothing_and_share_the_connections(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    r.lpush(name, "a", "b")
    assert r.rpop(name) == b"a"
    other = copy.copy(r)
    assert isinstance(other, dropin.Redis)
    assert other.connection_pool is r.connection_pool
    assert other.rpop(name) == b"b"
    assert queue.stats().in_flight == 2
    assert r.rpop(name) is None
    assert queue.stats().in_flight == 1
    assert other.rpop(name) is None
    assert settled(queue)


class Picklable(redis.Redis):
    """A client that can be pickled, which redis-py's own cannot."""

    def __reduce__(self) -> Any:
        return Picklable, ()


def test_it_can_be_pickled_if_the_client_can(plain_client: redis.Redis) -> None:
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(plain_client)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(dropin.Redis(plain_client, hold=0))
    loaded: Any = pickle.loads(
        pickle.dumps(dropin.Redis(Picklable(), visibility_timeout=7, hold=0))
    )
    assert loaded._ackq.settings["visibility_timeout"] == 7
    assert isinstance(loaded, Picklable)


def test_methods_can_be_patched(r: dropin.Redis, name: str) -> None:
    with mock.patch.object(r, "rpop", return_value=b"patched"):
        assert r.rpop(name) == b"patched"
    with mock.patch.object(dropin.Redis, "brpop", return_value=b"patched"):
        assert r.brpop(name) == b"patched"
    with mock.patch.object(redis.Redis, "get", return_value=b"patched"):
        assert r.get(name) == b"patched"
    assert r.rpop(name) is None


def test_a_client_from_a_url(url: str, name: str) -> None:
    with dropin.Redis.from_url(url, visibility_timeout=LEASE, decode_responses=True, hold=0) as r:
        r.lpush(name, "a")
        assert r.rpop(name) == "a"


def test_losing_the_drop_in_leaves_the_wrapped_client_alone(
    plain_client: redis.Redis, name: str
) -> None:
    pool = plain_client.connection_pool
    kwargs = pool.connection_kwargs
    plain = redis.Redis.from_pool(redis.ConnectionPool(pool.connection_class, **kwargs))
    subscription = plain.pubsub()
    subscription.subscribe(name)
    r = dropin.Redis(plain, hold=0)
    del r
    assert subscription.connection is not None
    assert subscription.connection._sock is not None
    subscription.close()
    plain.close()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (client.Redis, (redis.Redis, redis.RedisCluster)),
        (client_async.Redis, (redis.asyncio.Redis, redis.asyncio.RedisCluster)),
    ],
    ids=["blocking", "asyncio"],
)
def test_no_private_name_hides_one_of_redis_py(ours: type, theirs: tuple[type, ...]) -> None:
    names = {
        name
        for kind in ours.__mro__[:-1]
        for name in vars(kind)
        if name.startswith("_") and not name.startswith("__") and not name.startswith("_abc")
    }
    assert names
    for kind in theirs:
        assert not [name for name in names if hasattr(kind, name)]


def test_it_is_not_wrapped_twice(r: dropin.Redis) -> None:
    with pytest.raises(ackq.ConfigurationError, match="already"):
        dropin.Redis(r, hold=0)


class Prefixed(redis.Redis):
    """A client that a user has changed."""

    def rpop(self, name: Any, count: Any = None) -> Any:
        return super().rpop(f"prefix-{name}", count)


class PrefixedOnAsyncio(redis.asyncio.Redis):
    def delete(self, *names: Any) -> Any:
        return super().delete(*(f"prefix-{name}" for name in names))


def test_a_subclass_with_a_pop_of_its_own_is_refused(plain_client: redis.Redis) -> None:
    pool = plain_client.connection_pool
    with pytest.raises(ackq.ConfigurationError, match=r"^Prefixed overrides rpop,.*subclass"):
        dropin.Redis(Prefixed(connection_pool=pool), hold=0)
    with pytest.raises(ackq.ConfigurationError, match="PrefixedOnAsyncio overrides delete"):
        dropin.asyncio.Redis(PrefixedOnAsyncio(), hold=0)
    patched = redis.Redis(connection_pool=pool)
    with (
        mock.patch.object(patched, "llen"),
        pytest.raises(ackq.ConfigurationError, match="overrides llen"),
    ):
        dropin.Redis(patched, hold=0)


def test_a_subclass_of_the_drop_in_may_override_a_pop(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    class Mine(dropin.Redis):
        def rpop(self, name: Any, count: int | None = None) -> Any:
            return super().rpop(name.upper().lower(), count)

    with Mine(plain_client, hold=0) as r:
        r.lpush(name, "a")
        assert r.rpop(name.upper()) == b"a"
        assert queue.stats().in_flight == 1


@pytest.mark.parametrize("single", [True, False])
def test_another_database_is_refused(plain_client: redis.Redis, name: str, single: bool) -> None:
    client = redis.Redis(
        connection_pool=plain_client.connection_pool, single_connection_client=single
    )
    with dropin.Redis(client, hold=0) as r:
        r.lpush(name, "a")
        with pytest.raises(dropin.Refused, match=r"database 0, .*make a client with db=5"):
            r.select(5)
        assert r.select(0)
        assert r.rpop(name) == b"a"
