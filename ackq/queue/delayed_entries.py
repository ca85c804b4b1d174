"""Names of delayed messages: their due time and their lease key.

The key alone would also name a later message with the same id.
"""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

from ackq.errors import ConfigurationError

_ENTRY = re.compile(r"([0-9]{1,16})-([!-~]+)")


def entry_of(due: bytes, key: bytes) -> str:
    """Return `PeekedMessage.entry` of a delayed message with this due time in µs."""
    return f"{float(due):.0f}-{quote_from_bytes(key, safe='')}"


def parts_of(entry: str) -> tuple[str, bytes]:
    """Return the due time in µs, and the lease key.

    Raises:
        ConfigurationError: this is not an entry.
    """
    matched = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
    if matched is None:
        raise ConfigurationError(
            f"{entry!r} is not a delayed message: pass PeekedMessage.entry, as"
            " '1795252215312092-order-7', or ids=['order-7']"
        )
    return matched[1], unquote_to_bytes(matched[2])
