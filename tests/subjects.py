"""How often what a proof looks for was there: a rule that never had a subject shows nothing.

The walks, the simulation and the campaign count each fault that struck, each thing that a process
did to its end, and each comparison of a rule. They print the counts, and fail if one that is
expected is 0.
"""

from collections import Counter
from collections.abc import Iterable


class Subjects(Counter[str]):
    """Counts by what was there."""

    def saw(self, what: str, times: int = 1) -> None:
        """Count a subject, or with 0 only what has none yet."""
        self[what] += times

    def missing(self, expected: Iterable[str] = ()) -> list[str]:
        """Return what never was there, of what is expected or was counted."""
        return sorted(each for each in {*expected, *self} if not self[each])

    def __str__(self) -> str:
        return ", ".join(f"{what} {times:,}" for what, times in sorted(self.items())) or "nothing"
