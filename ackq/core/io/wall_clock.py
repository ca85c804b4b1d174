"""The time of day, by this machine's clock."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Return the time in RFC 3339, in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
