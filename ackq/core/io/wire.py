"""Commands as bytes."""

from __future__ import annotations

from typing import Any

import hiredis

from ackq.core.effects import Arg

# redis-py packs in Python on asyncio; hiredis does the same in C, so both clients use it. Its
# type stub describes a tuple of one element.
_pack: Any = hiredis.pack_command


def pack(command: tuple[Arg, ...]) -> bytes:
    """Return ``command`` in the Redis protocol."""
    packed: bytes = _pack(command)
    return packed
