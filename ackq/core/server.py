"""Check, once and before the first operation, that a server is suitable for a queue."""

from __future__ import annotations

from collections.abc import Mapping

from redis.exceptions import NoPermissionError, ResponseError

from ackq.core.effects import Operation, Request
from ackq.core.names import has_hash_tag
from ackq.errors import CrossSlotError, EvictionPolicyError, UnsupportedServer

#: The oldest Redis that has every command the scripts use.
OLDEST = (6, 2)


def check_server(name: str) -> Operation[None]:
    """Raise an error if this server, or this name on it, could lose messages.

    If the user may not read INFO, or the server has none, as fakeredis, the check is skipped.

    Raises:
        UnsupportedServer: older than Redis 6.2.
        EvictionPolicyError: its maxmemory-policy may drop the queue's keys.
        CrossSlotError: the server is in a cluster, and the name has no hash tag.
    """
    try:
        text: bytes = yield Request((b"INFO",), resend=True)
    except NoPermissionError:
        return
    except ResponseError as error:
        if not str(error).lower().startswith("unknown command"):
            raise
        return
    info = parse_info(text)
    version = info.get("redis_version", "")
    if version and tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise UnsupportedServer(f"ackq needs Redis 6.2 or later; this server is {version}")
    policy = info.get("maxmemory_policy", "")
    if policy.startswith("allkeys-"):
        raise EvictionPolicyError(
            f"maxmemory-policy is {policy}: when memory runs out the server would drop messages"
            " without an error. Run CONFIG SET maxmemory-policy noeviction, and set it in"
            " redis.conf. Nothing was sent"
        )
    if is_cluster(info) and not has_hash_tag(name):
        raise CrossSlotError(
            f"{name!r} is on a cluster, where all keys of a queue must share a slot:"
            f" name it {'{' + name + '}'!r}. Nothing was sent"
        )


def is_cluster(info: Mapping[str, str]) -> bool:
    """Return whether INFO is that of a node of a cluster.

    The mode is not used: Redis names the field ``redis_mode``, Valkey ``server_mode``.
    """
    return info.get("cluster_enabled") == "1"


def parse_info(reply: bytes) -> dict[str, str]:
    """Return the fields of a reply to INFO or CLUSTER INFO."""
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
