"""The names under which a server is known, so that web pages of other sites cannot read it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence

#: A name or an address, perhaps with a port.
_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]@]+)\]|(?P<name>[^\[\]:@/?#\s]+))(?::[0-9]*)?")


class KnownHosts:
    """Judges the Host header of requests.

    A browser sends the name in its address bar. A page of another site, whose name was made to
    point to this server (DNS rebinding), so sends that name. IP addresses and ``localhost`` cannot
    be made to point elsewhere.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Prepare.

        Args:
            names: further names of this server, without ports.
        """
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

    def allow(self, hosts: Sequence[str]) -> bool:
        """Return whether a request has exactly one Host header, with a name of this server."""
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None:
            return False
        host = (match["ipv6"] or match["name"]).lower()
        return _address(host) is not None or (
            match["ipv6"] is None and host.rstrip(".") in self._names
        )


def is_loopback(host: str) -> bool:
    """Return whether this is an address that only this machine can reach."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
