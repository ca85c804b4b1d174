"""Find few faults that still break a rule."""

from collections.abc import Callable
from pathlib import Path

from .run import Result, simulate
from .server import Server


def shrink(server: Server, found: Result, folder: Path) -> Result:
    """Leave out faults as long as one of the same rules is broken; return the last such history."""

    def breaks(only: frozenset[str]) -> Result | None:
        result = simulate(server, found.seed, folder, only)
        return result if result.broken & found.broken else None

    # Without a fault, much after it happens otherwise; so first try one alone, or none.
    for few in ((), *((each,) for each in found.struck)):
        if (result := breaks(frozenset(few))) is not None:
            return result
    best, part = found, max(1, len(found.struck) // 2)
    while (smaller := _without_a_part(best, part, breaks)) is not None or part > 1:
        if smaller is not None:
            best = smaller
        else:
            part //= 2
    return best


def _without_a_part(
    best: Result, part: int, breaks: Callable[[frozenset[str]], Result | None]
) -> Result | None:
    """Try without each group of ``part`` faults in turn."""
    struck = list(best.struck)
    for at in range(0, len(struck), part):
        smaller = breaks(frozenset(struck[:at] + struck[at + part :]))
        if smaller is not None:
            return smaller
    return None
