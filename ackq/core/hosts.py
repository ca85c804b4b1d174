"""The names under which a server is known, so that web pages of other sites cannot read it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit


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
        """Return whether the Host headers of a request are one, with a name of this server."""
        if len(hosts) != 1 or "@" in hosts[0]:
            return False
        try:
            host = urlsplit(f"//{hosts[0]}").hostname or ""
        except ValueError:
            return False
        return host.rstrip(".") in self._names or _address(host) is not None


def is_loopback(host: str) -> bool:
    """Return whether this is an address that only this machine can reach."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
