"""The redis-server on PATH, such as Debian's."""

from .binaries import system_server
from .process import plain
from .target import Offer


def offer() -> Offer:
    return plain("debian", system_server())
