"""Who may listen where, and who may look: addresses and passwords of ``ackq web``."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from pathlib import Path

from ackq.errors import ConfigurationError

#: Fewest characters of a password: it can be guessed only as fast as the page refuses.
MIN_PASSWORD = 12


def endpoint_of(text: str) -> tuple[str, int]:
    """Return the address and port of ``HOST:PORT``, ``[IPv6]:PORT`` or ``PORT``.

    Raises:
        ConfigurationError: it is none of these.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"--listen takes HOST:PORT, such as 127.0.0.1:8383, not {text!r}")
    return host, int(port)


def read_users(path: Path) -> dict[str, str]:
    """Return the passwords by user name in a file with lines ``name:password``.

    Raises:
        ConfigurationError: a line has another form, a password is short, or there is none.
    """
    users: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.strip().partition(":")
        if not name or not colon:
            raise ConfigurationError(f"{path}, line {number}: not name:password")
        if len(password) < MIN_PASSWORD:
            raise ConfigurationError(
                f"{path}, line {number}: a password has at least {MIN_PASSWORD} characters"
            )
        users[name] = password
    if not users:
        raise ConfigurationError(f"{path} names no user")
    return users


def listen(host: str, port: int, users: Mapping[str, str] | None) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ConfigurationError: the address or port cannot be used; or it is not a loopback address,
            and there are no users.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        text = f"cannot listen on {host}:{port}: {error.strerror}"
        raise ConfigurationError(text) from error
    # Ask the socket and not the name, which may have several addresses.
    if users or ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        return listener
    listener.close()
    raise ConfigurationError(
        f"{host} can be reached from other machines, so the page needs passwords there: pass"
        " --users FILE, or listen on 127.0.0.1"
    )


def address_of(listener: socket.socket) -> str:
    """Return the URL of what listens there."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
