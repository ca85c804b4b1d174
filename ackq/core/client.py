# Written by tools/blocking.py: edit client_async.py instead, then run make clients.
"""What every blocking class of ackq has: its own connections, and a driver to run operations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, ParamSpec, Self, TypeVar

import redis

from ackq.config import Confirm
from ackq.core import observation
from ackq.core.effects import Operation
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.io.settings import (
    bad_url,
    block_limit_for,
    check_confirm_fits,
    check_database,
    check_options,
    check_url,
    with_timeouts,
)
from ackq.core.io.together import Prepared
from ackq.core.names import check_text
from ackq.core.server import check_server

P = ParamSpec("P")
T = TypeVar("T")


class Closable:
    """A context manager that closes the object at its end."""

    def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Client(Closable):
    """Runs operations on the server that has ``key``, the name of a queue or topic."""

    def __init__(self, client: redis.Redis | redis.RedisCluster, key: str) -> None:
        check_text(key)
        route = route_of(client, key.encode())
        self._key = key
        self._driver = Driver(route)
        self._block_limit = block_limit_for(route.socket_timeout)
        self._checked = False

    def close(self) -> None:
        """Close the connections. Leases continue until they end."""
        self._driver.route.close()

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} has connections, which cannot be pickled: pass the URL and the name, and"
            f" call {type(self).__name__}.from_url in the other process"
        )

    def __repr__(self) -> str:
        return f"<ackq.{type(self).__name__} {self._key!r} on {self.address}>"

    @property
    def address(self) -> str:
        """The address of the server, without credentials."""
        return self._driver.route.address

    @property
    def url(self) -> str | None:
        """The URL of the server, with its password. None if none says how to connect to it.

        So for a cluster, a server that Sentinel finds, and a password that a function makes.
        """
        return self._driver.route.url

    def _prepared(
        self, operation: Callable[P, Operation[T]], *args: P.args, **settings: P.kwargs
    ) -> Prepared[T]:
        """Return an operation to run together with those of other clients, by `run_all`."""
        return self._driver, self._after_check(self._observed(operation, *args, **settings))

    def _after_check(self, steps: Operation[T]) -> Operation[T]:
        if not self._checked:
            yield from self._check()
        return (yield from steps)

    def _check(self) -> Operation[None]:
        yield from check_server(self._key)
        self._checked = True

    def _observed(
        self, operation: Callable[P, Operation[T]], *args: P.args, **settings: P.kwargs
    ) -> Operation[T]:
        if observation.observer is None:
            return operation(*args, **settings)
        return observation.observer.operation(operation, self.address, args, settings)

    def _beside(self, key: str) -> Self:
        """Return a copy of this client for another key, with the same connections."""
        other = copy.copy(self)
        other._key, other._checked = key, False
        other._driver = Driver(self._driver.route.beside(key.encode()))
        return other

    def _share_connections_of(self, other: Client) -> None:
        """Use the connections of another client of the same server."""
        self._driver, self._checked = other._driver, other._checked

    def _run(self, steps: Operation[T]) -> T:
        if not self._checked:
            self._driver.run(check_server(self._key))
            self._checked = True
        return self._driver.run(steps)

    def _perform(
        self, operation: Callable[P, Operation[T]], *args: P.args, **settings: P.kwargs
    ) -> T:
        """Run an operation that sends, receives or settles messages; the observer sees it."""
        if observation.observer is not None:
            first = None if self._checked else self._check()
            observe = observation.observer.operation
            return self._driver.run(observe(operation, self.address, args, settings, first))
        # Past the first operation, `_run` would only cost a call.
        steps = operation(*args, **settings)
        return self._driver.run(steps) if self._checked else self._run(steps)

    def _fit(self, confirm: int | Confirm) -> Confirm:
        """Return ``confirm`` as a `Confirm` that fits the connections."""
        checked = Confirm.of(confirm)
        check_confirm_fits(checked.seconds, self._driver.route.socket_timeout)
        return checked


def client_of(url: str | None) -> redis.Redis:
    """Return a client for ``url``. None: use the embedded server; start it if needed.

    Raises:
        ConfigurationError: the URL is invalid. The error does not show its password.
        ServerNotFound: there is no URL, and no redis-server was found.
    """
    if url is None:
        from ackq.embedded import shared_url

        url = shared_url()
    check_url(url)
    try:
        check_database(url)
        client = redis.Redis.from_url(url)
    except ValueError as error:
        raise bad_url(url, error) from None
    pool = client.connection_pool
    check_options(url, pool)
    pool.connection_kwargs = with_timeouts(pool.connection_kwargs)
    return client
