"""Facts that a server reports, as far as this user may ask."""

from __future__ import annotations

from dataclasses import dataclass, field

from ackq.core.effects import Operation
from ackq.core.server import is_cluster, parse_info
from ackq.ops.asking import ask

#: Settings that decide what a crash would lose.
SETTINGS = (
    "save",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "aof-load-truncated",
    "min-replicas-to-write",
    "min-replicas-max-lag",
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that could be read. An empty mapping means that the user may not ask."""

    info: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    #: CLUSTER INFO; empty if the server is not in a cluster or this user may not ask.
    cluster: dict[str, str] = field(default_factory=dict)
    #: Name of the user; None if the user may not ask for it.
    user: str | None = None
    #: Seconds by which the server's clock is ahead of this machine's, and the error of that.
    clock_ahead: float | None = None
    clock_uncertainty: float = 0.0

    @property
    def product(self) -> str:
        """The product: redis or valkey."""
        return "valkey" if "valkey_version" in self.info else "redis"

    @property
    def mode(self) -> str:
        """The server's mode: standalone, cluster or sentinel."""
        return self.info.get("redis_mode") or self.info.get("server_mode", "standalone")

    @property
    def writable(self) -> bool:
        """Whether the server accepts writes: it is not a replica and not still loading data."""
        return self.info.get("role") != "slave" and not self.number("loading")

    @property
    def version(self) -> tuple[int, ...]:
        """The server's version; empty if unknown."""
        text = self.info.get(f"{self.product}_version", "")
        parts = text.split(".")[:3]
        return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()

    def number(self, name: str) -> int:
        """Return a number from INFO, or 0 if it is missing."""
        text = self.info.get(name, "")
        return int(text) if text.isdigit() else 0


def read_facts() -> Operation[Facts]:
    """Read INFO, the settings, the cluster's state and the user's name. 8 round trips at most."""
    info = parse_info((yield from ask(b"INFO")) or b"")
    cluster = {}
    if is_cluster(info):
        cluster = parse_info((yield from ask(b"CLUSTER", b"INFO")) or b"")
    settings = yield from _settings()
    user = yield from ask(b"ACL", b"WHOAMI")
    return Facts(info, settings, cluster, user.decode() if user else None)


def _settings() -> Operation[dict[str, str]]:
    settings = {}
    for name in SETTINGS:
        # One at a time: Redis 6.2 accepts a single name.
        reply = yield from ask(b"CONFIG", b"GET", name)
        if reply is None:
            break
        pairs = (
            reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
        )
        settings.update({key.decode(): value.decode() for key, value in pairs})
    return settings
