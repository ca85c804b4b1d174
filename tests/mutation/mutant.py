"""A mutant: one change in one function, and the sample that a seed draws."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

#: The first line of a generated blocking client; its asyncio twin is mutated.
GENERATED = "# Written by tools/blocking.py"


@dataclass(frozen=True)
class Mutant:
    """One change in one function."""

    package: str  #: of a quiet mutant: its kind
    function: str  #: such as "ackq/delay/take.py: take"
    before: str
    after: str
    occurrence: int  #: of the same change in the function
    code: str  #: of the function with the change
    place: str  #: of the changed statement, or of those that use a changed constant

    @property
    def key(self) -> str:
        """What the mutant is, whatever else changes in its file."""
        number = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.function}: {self.before} -> {self.after}{number}"


def draw(mutants: list[Mutant], seed: int, size: int, packages: Iterable[str]) -> list[Mutant]:
    """Return the sample: the same mutants as long as their own lines do not change."""

    def order(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    return [
        mutant
        for package in packages
        for mutant in sorted((each for each in mutants if each.package == package), key=order)[
            :size
        ]
    ]
