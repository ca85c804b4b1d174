"""Connect to Redis from the driver and the executors, without secrets in options, and retry."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import redis
from redis.exceptions import AuthenticationError, AuthorizationError, OutOfMemoryError

from ackq.core.client import client_of
from ackq.core.io.settings import bad_url, check_url, with_timeouts
from ackq.core.retries import TEMPORARY
from ackq.errors import ConfigurationError, redact
from ackq.spark.raw_options import RawOptions

#: The environment variable with the URL, which may contain a password. The option overrides it.
URL_VARIABLE = "ACKQ_REDIS_URL"


@dataclass(frozen=True, slots=True)
class Connection:
    """How to connect to Redis. Contains no secrets, so it can be sent to executors."""

    url: str | None
    password_file: str | None = None
    cluster: bool = False

    @classmethod
    def of(cls, raw: RawOptions) -> Connection:
        """Read the options ``url``, ``passwordFile`` and ``cluster``.

        Raises:
            ConfigurationError: the URL contains a password, which would appear in plans and tasks.
        """
        url = raw.text("url")
        if url is not None and holds_secret(url):
            raise ConfigurationError(
                "option 'url' contains a password, which would appear in plans and logs: put the"
                f" whole URL into the environment variable {URL_VARIABLE} of driver and executors,"
                " or the password into a file, and name that file in 'passwordFile'"
            )
        return cls(url, raw.text("passwordFile"), raw.flag("cluster", False))

    def client(self) -> redis.Redis | redis.RedisCluster:
        """Return this process's client, which is created once.

        Raises:
            ConfigurationError: this machine has no URL, or it is not valid.
        """
        return _client(self)

    def address(self) -> str:
        """Return the URL with its password. Only for `client`."""
        url = self.url or os.environ.get(URL_VARIABLE)
        if not url:
            raise ConfigurationError(
                f"no URL of Redis: set the environment variable {URL_VARIABLE} on the driver and on"
                " every executor, or the option 'url'"
            )
        return url if self.password_file is None else _with_password(url, self.password_file)


@cache
def _client(connection: Connection) -> redis.Redis | redis.RedisCluster:
    url = connection.address()
    if not connection.cluster:
        return client_of(url)
    check_url(url)
    try:
        # It connects at once, so the limits are added to the URL, whose own options win.
        return redis.RedisCluster.from_url(url, **with_timeouts({}))
    except ValueError as error:
        raise bad_url(url, error) from None


def holds_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.password is not None or "password=" in parts.query.lower()
    except ValueError:
        return "@" in url or "password=" in url.lower()


def _with_password(url: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            password = file.read().strip("\r\n")
    except OSError as error:
        raise ConfigurationError(f"option 'passwordFile': {path!r}: {error.strerror}") from None
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise bad_url(url, error) from None
    user, host = parts.username or "", parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


T = TypeVar("T")
_LOG = logging.getLogger("ackq.spark")

#: Errors that may be temporary: a restart, a failover, a network failure.
_TEMPORARY = (redis.ConnectionError, redis.TimeoutError, OSError, OutOfMemoryError, *TEMPORARY)
#: Connection errors that a retry cannot fix.
_FINAL = (AuthenticationError, AuthorizationError)
#: Seconds before the second attempt, and the maximum between later ones.
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0


def may_pass(error: Exception) -> bool:
    """Return whether a retry may help."""
    return isinstance(error, _TEMPORARY) and not isinstance(error, _FINAL)


def retry(call: Callable[[], T], timeout: float, server: str = "Redis") -> T:
    """Return the result of ``call``; repeat the call while Redis cannot be reached.

    Args:
        call: an operation on Redis that may safely be repeated.
        timeout: seconds after which the last error is raised.
        server: what is called, in log lines. Defaults to Redis.
    """
    until = time.monotonic() + timeout
    pause = FIRST_PAUSE
    while True:
        try:
            return call()
        except Exception as error:
            if not may_pass(error) or time.monotonic() + pause > until:
                raise
            _LOG.warning("%s cannot be reached, trying again: %s", server, redact(str(error)))
        time.sleep(pause)
        pause = min(MAX_PAUSE, 2 * pause)
