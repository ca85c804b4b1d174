"""Times for output."""

from __future__ import annotations

import sys


def local_time(at: float | None) -> str | None:
    """Return a time since the epoch as local time; outside a terminal, with the zone.

    A number outside the calendar's range, which other programs may write, is returned as it is.
    """
    if at is None:
        return None
    from datetime import datetime

    try:
        local = datetime.fromtimestamp(at)
        if not sys.stdout.isatty():
            local = local.astimezone()
    except (ValueError, OverflowError, OSError):
        return str(at)
    return local.isoformat(sep=" ", timespec="seconds")


def short_time(at: float | None) -> str | None:
    """Return a time for a table; in a terminal, without the parts that match today."""
    if at is None or not sys.stdout.isatty():
        return local_time(at)
    from datetime import datetime

    try:
        local, now = datetime.fromtimestamp(at), datetime.now()
    except (ValueError, OverflowError, OSError):
        return str(at)
    if local.date() == now.date():
        return f"{local:%H:%M:%S}"
    return f"{local:%m-%d %H:%M}" if local.year == now.year else f"{local:%Y-%m-%d}"
