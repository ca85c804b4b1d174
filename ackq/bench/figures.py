"""What a benchmark found, as values that JSON can carry."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

#: Version of the JSON.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the least and the greatest of the values it stands for."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of one contestant in one case, a value for each round.

    Attributes:
        case: what was done, such as "by 100, 1 KB, TCP"; contestants of a case are comparable.
        contestant: who did it, such as "ackq".
        figure: what was measured, such as "throughput".
        unit: of the values, such as "messages/s".
        rounds: the values; those of two contestants at one place are of the same round.
        at: where a line of this figure has this point, such as the number of waiters.
        more_is_better: or less is.
    """

    case: str
    contestant: str
    figure: str
    unit: str
    rounds: tuple[float, ...]
    at: float | None = None
    more_is_better: bool = False

    @property
    def spread(self) -> Spread:
        return Spread.of(self.rounds)

    @property
    def key(self) -> tuple[str, str, str]:
        """What names the same measure in another run."""
        return self.case, self.contestant, self.figure

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), **asdict(self.spread)}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        return cls(**{**_fields(cls, found), "rounds": tuple(found["rounds"])})


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two contestants compared within each round.

    Less is better where ``ceiling``, else more is; ``target`` is what is to be reached.
    """

    what: str
    rounds: tuple[float, ...]
    target: float | None = None
    ceiling: bool = False

    @classmethod
    def of(
        cls, what: str, above: Sequence[float], below: Sequence[float],
        target: float | None = None, ceiling: bool = False,
    ) -> Self:  # fmt: skip
        """Divide round by round: what disturbs the machine for a while disturbs both."""
        quotients = tuple(a / b for a, b in zip(above, below, strict=True))
        return cls(what, quotients, target, ceiling)

    @property
    def spread(self) -> Spread:
        return Spread.of(self.rounds)

    @property
    def reached(self) -> bool | None:
        """Whether the median is on the right side of the target; None: there is no target."""
        if self.target is None:
            return None
        median = self.spread.median
        return median <= self.target if self.ceiling else median >= self.target

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        sign = "<=" if self.ceiling else ">="
        return f"target {sign} {self.target:g}: {'reached' if self.reached else 'MISSED'}"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), **asdict(self.spread), "verdict": self.verdict}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        return cls(**{**_fields(cls, found), "rounds": tuple(found["rounds"])})


@dataclass(slots=True)
class Result:
    """What one benchmark found, and under which circumstances.

    Attributes:
        benchmark: its name.
        facts: server, versions, machine and settings, with the seed; see `circumstances`.
        measures, ratios: what was found.
        notes: sentences that a reader of the figures must know: who is absent, what is a model.
    """

    benchmark: str
    facts: dict[str, Any]
    measures: list[Measure] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "facts": self.facts,
            "measures": [each.as_json() for each in self.measures],
            "ratios": [each.as_json() for each in self.ratios],
            "notes": self.notes,
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        return cls(
            found["benchmark"],
            found["facts"],
            [Measure.from_json(each) for each in found["measures"]],
            [Ratio.from_json(each) for each in found["ratios"]],
            found["notes"],
        )


def to_json(results: Iterable[Result]) -> dict[str, Any]:
    """Return results as the content of a file."""
    return {"format": FORMAT, "results": [each.as_json() for each in results]}


def from_json(content: Any) -> list[Result]:
    """Return the results in the content of a file.

    Raises:
        ValueError: it is no such file.
    """
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"these are no results of ackq's benchmarks in format {FORMAT}")
    return [Result.from_json(each) for each in content["results"]]


def _fields(cls: type[Any], found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is there for readers only, such as the median."""
    return {name: found[name] for name in cls.__dataclass_fields__}
