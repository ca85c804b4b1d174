"""Shared by blocking and asyncio connections: settings to copy, addresses without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from redis.exceptions import TimeoutError

from ackq.errors import ConfigurationError

#: Settings that tie a connection to the pool it was made for, or change what a reply looks like.
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
LONGEST_BLOCK = 1.0
#: Seconds to connect, and to wait for a reply, where the client sets no limit: redis-py before
#: version 8 sets none, and a silent connection would hang its caller forever.
CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 5.0
#: Seconds without a reply after which a connection is pinged before its next use.
HEALTH_CHECK_INTERVAL = 30


def connection_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's connection settings as ackq's own connections use them.

    ackq packs and resends by itself, so the client's decoding is left out. Its retry policy
    stays: a connection uses it only to connect, where nothing can be applied twice.
    """
    return bounded({name: value for name, value in settings.items() if name not in _NOT_COPIED})


def bounded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return connection settings with a bound for each wait that has none."""
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
    return {**settings, **bounds}


def owner_of(slot: int, ranges: Any) -> tuple[str, int] | None:
    """Return host and port of a slot's primary, from the reply to CLUSTER SLOTS; None: no owner.

    The host is empty where the node that was asked does not know its own name.
    """
    for first, last, (host, port, *_), *_ in ranges:
        if first <= slot <= last:
            return (host or b"").decode(), port
    return None


def nodes_in(ranges: Any) -> list[tuple[str, int]]:
    """Return host and port of every node in the reply to CLUSTER SLOTS that knows its name."""
    found = {
        (host.decode(), port): None for _, _, *nodes in ranges for host, port, *_ in nodes if host
    }
    return list(found)


def redirected(settings: Mapping[str, Any], host: str, port: int) -> dict[str, Any]:
    """Return the settings for another node of the cluster that a server belongs to.

    A node that does not know its own name redirects to none: then it is the server's.
    """
    elsewhere = {name: value for name, value in settings.items() if name != "path"}
    return elsewhere | {"host": host or settings.get("host", "localhost"), "port": port}


def block_limit_for(socket_timeout: float | None) -> float:
    """Return how long one blocking command may last under this read timeout."""
    if socket_timeout is None:
        return LONGEST_BLOCK
    return min(LONGEST_BLOCK, socket_timeout / 2)


def check_confirm_fits(confirm_timeout: float, socket_timeout: float | None) -> None:
    """Refuse to wait for replicas longer than the connection waits for any reply."""
    if socket_timeout is not None and confirm_timeout >= socket_timeout:
        raise ConfigurationError(
            f"confirm.timeout of {confirm_timeout:g} s reaches the client's socket_timeout of"
            f" {socket_timeout:g} s: shorten the one or lengthen the other"
        )


def check_database(url: str) -> None:
    """Refuse a URL whose path is no number: redis-py would use database 0.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(url)
    database = unquote(parts.path).replace("/", "")
    named = parts.scheme in ("redis", "rediss") and "db" not in parse_qs(parts.query)
    if named and database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"the database is a number, as in redis://host:6379/0, not {database!r}")


def no_client(client: Any, wanted: str, twin: str) -> ConfigurationError:
    """Return the error for what was passed in the place of a client.

    Args:
        client: what was passed; not shown, since a URL may hold a password.
        wanted: the class that is.
        twin: which of ackq's two classes takes this kind of client; empty: neither.
    """
    if isinstance(client, str | bytes):
        return ConfigurationError(f"client is a {wanted}, not a URL: for a URL there is from_url")
    if twin:
        return ConfigurationError(
            f"client is of the module {type(client).__module__}: pass a {wanted}, or use the class"
            f" {twin} in its name"
        )
    return ConfigurationError(
        f"client is a {wanted}, a client of a cluster, or one that Sentinel's master_for"
        f" returned, not {type(client).__name__}"
    )


def with_hint(error: Exception, tls: bool) -> Exception:
    """Return ``error``, met while connecting, with a hint where TLS may be the reason.

    A server that expects plain Redis waits for the end of the line that TLS never sends; one that
    expects TLS hangs up.
    """
    text = str(error)
    if tls and isinstance(error, TimeoutError):
        error.args = (f"{text}. The server may not speak TLS: try redis:// for rediss://",)
    elif not tls and ("closed" in text.lower() or "reset by peer" in text):
        error.args = (f"{text} The server may want TLS: try rediss:// for redis://",)
    return error


def check_url(url: str) -> None:
    """Refuse a URL whose password has a reserved character that is not percent-encoded.

    The parser would end the password there, take a part of it for a host, and errors show hosts.

    Raises:
        ConfigurationError: it does not show the password.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise bad_url(url, error) from None
    if parts.scheme not in ("redis", "rediss"):
        return
    loose = [each for each in parts.query.split("&") if "=" not in each]
    if any("@" in each for each in (parts.path, parts.fragment, *loose)):
        raise bad_url(url, ValueError()) from None


def bad_url(url: str, error: Exception) -> ConfigurationError:
    """Return the error for a URL that redis-py refused, without its password."""
    if "@" not in url and "password" not in url.lower():
        return ConfigurationError(f"Redis URL {url!r}: {error}")
    # The parser quotes what it could not read, and that may be a part of the password.
    scheme, separator, _ = url.partition("://")
    shown = f"{scheme}{separator}***" if separator else "***"
    return ConfigurationError(
        f"Redis URL {shown!r} cannot be read: check its scheme, port, database and options, and"
        " percent-encode reserved characters in the password"
    )


def address_of(settings: Mapping[str, Any]) -> str:
    """Return where connections with these settings go, without credentials."""
    if "path" in settings:
        return f"unix:{settings['path']}"
    if "host" in settings:
        return f"{settings['host']}:{settings.get('port', 6379)}/{settings.get('db', 0)}"
    return "sentinel"
