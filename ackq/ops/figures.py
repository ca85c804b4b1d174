"""Counts, rates and durations as people read them, in a terminal and on the page."""

from __future__ import annotations

from ackq.core.inspection_results import Found
from ackq.ops.readings import Reading

UNKNOWN = "-"


def count(number: float | None) -> str:
    """Return a whole number, with separators."""
    if number is None:
        return UNKNOWN
    return f"{number:,.0f}" if number < 10_000_000 else f"{number / 1e6:,.2f}M"


def rate(number: float | None) -> str:
    """Return a number per second."""
    if number is None:
        return UNKNOWN
    if number >= 1_000_000:
        return f"{number / 1e6:,.1f}M"
    if number >= 10_000:
        return f"{number / 1000:.1f}k"
    return f"{number:.1f}" if 0 < number < 10 else f"{number:,.0f}"


def span(seconds: float | None) -> str:
    """Return a duration, such as ``5 min``."""
    if seconds is None:
        return UNKNOWN
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 360_000 else f"{whole / 86_400:,.1f} d"


def place_of(found: Found) -> str:
    """Describe where a message is: its position, when it comes back, or why it is dead."""
    match found.state:
        case "ready":
            if found.position is None:
                place = "moved aside, waits for its group's turn"
            else:
                place = f"{found.position:,} before it" if found.position else "next"
            return f"{place}, canceled" if found.canceled else place
        case "in_flight":
            worker = f", {found.worker}" if found.worker else ""
            return f"lease ends in {found.lease_ends_in:.0f} s{worker}"
        case "delayed":
            return f"due in {found.due_in:.0f} s"
    return found.reason


def by_state(reading: Reading) -> dict[str, int | None]:
    """Return the messages by state; None: the kind has no such state.

    Messages that a topic's consumer is behind count as ready. RSMQ's hidden ones, which were
    received or are delayed, count as in flight.
    """
    states = reading.states
    return {
        "ready": states.get("ready", 0) if states else reading.backlog,
        "in_flight": states.get("in_flight", states.get("hidden")),
        "delayed": states.get("delayed"),
        "dead": states.get("dead"),
    }
