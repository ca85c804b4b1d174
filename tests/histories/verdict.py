"""What a run showed."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.subjects import Subjects

#: Violations of each kind that are kept in words.
EXAMPLES = 5


@dataclass
class Verdict:
    """What was counted, and every violation."""

    pushed: int = 0  #: messages whose push was answered
    unsure: int = 0  #: messages whose push got no answer
    delivered: int = 0
    redelivered: int = 0
    acked: int = 0  #: messages with an answered ack
    refused: int = 0  #: settles that came too late, and were refused
    lost_as_expected: int = 0  #: stored, and undone by a fault that is documented to do so
    window: float = 0.0  #: s before such a fault in which answers were undone, the longest seen
    faults: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)
    subjects: Subjects = field(default_factory=Subjects)  #: what each rule compared, by rule
    examples: list[str] = field(default_factory=list)

    def broke(self, rule: str, words: str) -> None:
        """Count a violation."""
        self.violations[rule] += 1
        if self.violations[rule] <= EXAMPLES:
            self.examples.append(f"{rule}: {words}")

    @property
    def sound(self) -> bool:
        """Whether every rule held."""
        return not self.violations

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def __str__(self) -> str:
        counts = ", ".join(
            f"{value} {name.replace('_', ' ')}"
            for name, value in vars(self).items()
            if isinstance(value, int) and value
        )
        faults = ", ".join(f"{kind} {n}" for kind, n in sorted(self.faults.items())) or "none"
        broken = [f"  {example}" for example in self.examples] or ["  every rule held"]
        return "\n".join([counts, f"  faults: {faults}", *broken])
