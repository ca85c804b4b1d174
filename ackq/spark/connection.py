"""Connect to Redis from the driver and the executors, without secrets in options."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote, urlsplit, urlunsplit

import redis

from ackq.core.client import client_of
from ackq.core.io.settings import bad_url, check_url, with_timeouts
from ackq.errors import ConfigurationError
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
