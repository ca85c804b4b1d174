"""Connection settings, for blocking and asyncio connections: copies, bounds, addresses, errors."""

from __future__ import annotations

import importlib.util
import re
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import redis
import redis.asyncio
from redis.exceptions import TimeoutError

from ackq.errors import ConfigurationError

#: The pipelines of redis-py, most of which are subclasses of its clients.
PIPELINES = (
    redis.client.Pipeline,
    redis.cluster.ClusterPipeline,
    redis.asyncio.client.Pipeline,
    redis.asyncio.cluster.ClusterPipeline,
)
#: Settings that tie a connection to its pool, or change the form of a reply.
_NOT_COPIED = (
    "decode_responses",
    "himport_registry",
    "event_dispatcher",
    "maint_notifications_config",
    "maint_notifications_pool_handler",
    "oss_cluster_maint_notifications_handler",
    "orig_host_address",
    "orig_socket_timeout",
    "orig_socket_connect_timeout",
)
#: Longest blocking command in seconds; see `QueueSpec.block_limit`.
MAX_BLOCK = 1.0
#: Seconds to connect, and to wait for a reply, if the client sets no limit. redis-py before
#: version 8 sets none, and a silent connection would block its caller forever.
CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 5.0
#: Most connections to one Sentinel. redis-py 8 allows 100 for each pool. Many tasks that connect at
#: the same time would need more, since each asks a Sentinel first.
SENTINEL_CONNECTIONS = 2**31
#: A refused connection to this machine, as redis-py reports it for blocking and asyncio clients.
_REFUSED_HERE = re.compile(
    r"(?=.*(refused|Connect call failed)).*connecting to (localhost|127\.0\.0\.1|::1):",
    re.IGNORECASE | re.DOTALL,
)
#: When the system probes a silent connection, and when it gives it up, in seconds: a consumer may
#: wait for minutes. redis-py before version 8 leaves that to the system, which takes two hours.
KEEPALIVE = {
    getattr(socket, name): value
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
}
#: Seconds without a reply after which a connection is pinged before its next use.
HEALTH_CHECK_INTERVAL = 30


def connection_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's connection settings, adapted for ackq's own connections.

    ackq decodes and resends itself, so the client's decoding is left out. The client's retry
    policy stays: it only applies to connecting, where nothing can happen twice.
    """
    return with_timeouts(
        {name: value for name, value in settings.items() if name not in _NOT_COPIED}
    )


def with_timeouts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return connection settings in which every wait has a limit."""
    read = settings.get("socket_timeout")
    read = READ_TIMEOUT if read is None else read
    connect = settings.get("socket_connect_timeout")
    bounds = {
        "socket_timeout": read,
        "socket_connect_timeout": min(CONNECT_TIMEOUT, read) if connect is None else connect,
        "health_check_interval": settings.get("health_check_interval") or HEALTH_CHECK_INTERVAL,
    }
    if "path" not in settings and settings.get("socket_keepalive") is None:
        bounds["socket_keepalive"] = True
        if not settings.get("socket_keepalive_options"):
            bounds["socket_keepalive_options"] = KEEPALIVE
    return {**settings, **bounds}


def owner_of(slot: int, ranges: Any) -> tuple[str, int] | None:
    """Return host and port of a slot's primary, from the reply to CLUSTER SLOTS; None: no owner.

    The host is empty if the node that replied does not know its own name.
    """
    for first, last, (host, port, *_), *_ in ranges:
        if first <= slot <= last:
            return (host or b"").decode(), port
    return None


def nodes_in(ranges: Any) -> list[tuple[str, int]]:
    """Return host and port of every node in the reply to CLUSTER SLOTS that knows its name."""
    unique = {
        (host.decode(), port): None for _, _, *nodes in ranges for host, port, *_ in nodes if host
    }
    return list(unique)


def redirected(settings: Mapping[str, Any], host: str, port: int) -> dict[str, Any]:
    """Return the settings for another node of the same cluster.

    A node that does not know its own name redirects to an empty host. Then the host of
    ``settings`` is used.
    """
    elsewhere = {name: value for name, value in settings.items() if name != "path"}
    return elsewhere | {"host": host or settings.get("host", "localhost"), "port": port}


def block_limit_for(socket_timeout: float | None) -> float:
    """Return how long, in seconds, one blocking command may wait under this read timeout."""
    if socket_timeout is None:
        return MAX_BLOCK
    return min(MAX_BLOCK, socket_timeout / 2)


def check_confirm_fits(confirm_timeout: float, socket_timeout: float | None) -> None:
    """Raise an error if a confirmation may take longer than the connection waits for a reply."""
    if socket_timeout is not None and confirm_timeout >= socket_timeout:
        raise ConfigurationError(
            f"confirm.timeout, {confirm_timeout:g} s, must be below the client's socket_timeout,"
            f" {socket_timeout:g} s: lower the first or raise the second"
        )


def check_database(url: str) -> None:
    """Raise an error for a URL whose path is not a number. redis-py would use database 0.

    Raises:
        ValueError: the path is not a number.
    """
    parts = urlsplit(url)
    database = unquote(parts.path).replace("/", "")
    named = parts.scheme in ("redis", "rediss") and "db" not in parse_qs(parts.query)
    if named and database and not (database.isascii() and database.isdigit()):
        raise ValueError(
            f"the database must be a number, as in redis://host:6379/0, not {database!r}"
        )


def check_options(url: str, pool: Any) -> None:
    """Raise an error for an option of a URL that the class of its connections does not know.

    redis-py would raise a TypeError when it connects.

    Raises:
        ConfigurationError: there is such an option.
    """
    try:
        pool.connection_class(**pool.connection_kwargs)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument ('\w+')", str(error))
        named = f"there is no option {unknown[1]}" if unknown else str(error)
        raise bad_url(url, ValueError(named)) from None


def check_no_pipeline(client: Any) -> None:
    """Refuse a pipeline: ackq would send over its own connections, outside of the transaction.

    Raises:
        ConfigurationError: it is a pipeline of redis-py.
    """
    if isinstance(client, PIPELINES):
        raise ConfigurationError(
            "client is a pipeline, and ackq would send at once instead of with its other commands."
            " Pass the client itself. To push in a transaction, add a plain LPUSH of the message"
            " to the pipeline: pipeline.lpush('jobs', body)"
        )


def wrong_client(client: Any, wanted: str) -> ConfigurationError:
    """Return the error for an argument that is not the right kind of client.

    Args:
        client: the argument. A text is not shown, since a URL may contain a password.
        wanted: the class of client that is needed.
    """
    awaited = isinstance(client, redis.asyncio.Redis | redis.asyncio.RedisCluster)
    twin = "with Async" if awaited else "without Async"
    if isinstance(client, str | bytes):
        return ConfigurationError(f"client must be a {wanted}, not a URL: use from_url")
    if "mock" in type(client).__module__:
        return ConfigurationError(
            f"client must be a {wanted}, not a mock: in a unit test, pass a fakeredis client,"
            " installed as fakeredis[lua], or replace ackq's own object by the mock"
        )
    if awaited or isinstance(client, redis.Redis | redis.RedisCluster):
        return ConfigurationError(
            f"client is of the module {type(client).__module__}: pass a {wanted}, or use the class"
            f" {twin} in its name. The drop-in for asyncio is ackq.dropin.asyncio.Redis"
        )
    return ConfigurationError(
        f"client must be a {wanted}, a cluster client, or a client from Sentinel's master_for,"
        f" not {type(client).__name__}"
    )


def check_scripts_run(client: Any) -> None:
    """Refuse a client of fakeredis that cannot run scripts.

    Raises:
        ConfigurationError: its ``lua`` extra is not installed.
    """
    faked = type(client).__module__.startswith("fakeredis")
    if faked and importlib.util.find_spec("lupa") is None:
        raise ConfigurationError(
            "fakeredis runs ackq's scripts only with its lua extra: pip install 'fakeredis[lua]'."
            " For a real server in a test there is ackq[embedded], with Queue.from_url(None, name)"
        )


def with_hint(error: Exception, tls: bool) -> Exception:
    """Return ``error``, raised while connecting, with a hint if its likely cause is known.

    A server without TLS waits for the end of a line, which a TLS client never sends. A server with
    TLS disconnects a client without it.
    """
    text = str(error)
    if _REFUSED_HERE.search(text):
        error.args = (
            f"{text} No server runs there. Start one with ackq serve, which prints its URL, or"
            " pass None as the URL: Queue.from_url(None, name) uses a server of ackq's own",
        )
    elif tls and isinstance(error, TimeoutError):
        error.args = (f"{text}. The server may not speak TLS: try redis:// for rediss://",)
    elif not tls and ("closed" in text.lower() or "reset by peer" in text):
        error.args = (f"{text} The server may want TLS: try rediss:// for redis://",)
    return error


def check_url(url: str) -> None:
    """Raise an error for a URL that is none, or one whose password needs percent-encoding.

    At a reserved character, the parser would end the password, and take the rest for the host,
    which errors show.

    Raises:
        ConfigurationError: the URL is such. The error does not show its password.
    """
    if not isinstance(url, str):
        raise ConfigurationError(f"a Redis URL is text, not {type(url).__name__}")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise bad_url(url, error) from None
    if parts.scheme not in ("redis", "rediss"):
        return
    loose = [part for part in parts.query.split("&") if "=" not in part]
    if any("@" in part for part in (parts.path, parts.fragment, *loose)):
        raise bad_url(url, ValueError()) from None


def bad_url(url: str, error: Exception) -> ConfigurationError:
    """Return the error for a URL that redis-py rejected, without its password."""
    if "@" not in url and "password" not in url.lower():
        if "://" not in url:
            error = ValueError("a URL begins with redis://, as in redis://localhost:6379/0")
        return ConfigurationError(f"Redis URL {url!r}: {error}")
    # The parser's error quotes what it could not read, which may be part of the password.
    scheme, separator, _ = url.partition("://")
    shown = f"{scheme}{separator}***" if separator else "***"
    return ConfigurationError(
        f"Redis URL {shown!r} cannot be read: check its scheme, port, database and options, and"
        " percent-encode reserved characters in the password"
    )


def url_of(pool: Any) -> str | None:
    """Return a URL, with its password, of the server of a connection pool.

    None if no URL names this server with these settings: Sentinel finds it, or a function makes
    the password.
    """
    settings = pool.connection_kwargs
    if not settings.keys() & {"host", "path"} or settings.get("credential_provider") is not None:
        return None
    user, password = (quote(settings.get(name) or "", "") for name in ("username", "password"))
    login = f"{user}:{password}@" if user or password else ""
    tls = {name: value for name, value in settings.items() if name.startswith("ssl_")}
    every = {"db": settings.get("db"), **tls}
    given = {name: value for name, value in every.items() if value is not None}
    if not all(type(value) in (str, int, bool) for value in given.values()):
        return None
    query = urlencode(given)
    if "path" in settings:
        return f"unix://{login}{settings['path']}?{query}"
    scheme = "rediss" if "SSL" in pool.connection_class.__name__ else "redis"
    host = f"[{settings['host']}]" if ":" in settings["host"] else settings["host"]
    return f"{scheme}://{login}{host}:{settings.get('port', 6379)}?{query}"


def address_of(settings: Mapping[str, Any]) -> str:
    """Return the address of the server, without credentials."""
    if "path" in settings:
        return f"unix:{settings['path']}"
    if "host" in settings:
        return f"{settings['host']}:{settings.get('port', 6379)}/{settings.get('db', 0)}"
    return "sentinel"
