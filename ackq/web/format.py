"""Numbers, times and texts as the page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ackq.escaping import printable
from ackq.membership.shards import whole_of as whole_of  # the templates link to sharded queues
from ackq.ops.figures import UNKNOWN
from ackq.ops.figures import count as count
from ackq.ops.figures import rate as rate
from ackq.ops.figures import span as span

#: Size of a sparkline in its own units.
WIDTH, HEIGHT = 120, 28
#: Characters of a body that are shown.
SHOWN_BODY = 65_536


def short_span(seconds: float | None) -> str:
    """Return a short duration, such as ``35 µs``."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def messages(number: int) -> str:
    """Return a number of messages."""
    return f"{count(number)} message{'' if number == 1 else 's'}"


def moment(seconds: float | None) -> str:
    """Return a time since the epoch, in UTC."""
    if seconds is None:
        return UNKNOWN
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def size(number: int) -> str:
    """Return a number of bytes."""
    if number < 1024:
        return f"{number} B"
    return f"{number / 1024:,.1f} KiB" if number < 1024 * 1024 else f"{number / 1048576:,.1f} MiB"


def body(raw: bytes) -> str:
    """Return the beginning of a body as lines of visible text."""
    lines = text(raw[:SHOWN_BODY].decode(errors="backslashreplace"))
    return lines if len(raw) <= SHOWN_BODY else f"{lines}\n… {size(len(raw) - SHOWN_BODY)} more"


def text(value: str) -> str:
    """Return lines of visible text."""
    return "\n".join(printable(line) for line in value.split("\n"))


def points(values: Sequence[float | None], times: Sequence[float]) -> str:
    """Return the points of a curve, from zero to the largest value.

    Args:
        values: oldest first; unknown ones are left out.
        times: of all samples. If there are fewer values, they are the last ones.
    """
    known = [
        (at, value)
        for at, value in zip(times[len(times) - len(values) :], values, strict=True)
        if value is not None
    ]
    if len(known) < 2:
        return ""
    top = max(*(value for _, value in known), 1e-9)
    wide, high = WIDTH / (times[-1] - times[0]), HEIGHT - 4
    return " ".join(
        f"{(at - times[0]) * wide:.1f},{HEIGHT - 2 - value / top * high:.1f}" for at, value in known
    )


def area(points: str) -> str:
    """Return the points of the area below a curve."""
    if not points:
        return ""
    first, last = points.split(",", 1)[0], points.rsplit(" ", 1)[1].split(",")[0]
    return f"{first},{HEIGHT} {points} {last},{HEIGHT}"


def peak(values: Sequence[float | None]) -> float | None:
    """Return the largest of the values that are known."""
    return max((value for value in values if value is not None), default=None)
