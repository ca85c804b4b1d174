"""The results of benchmarks, as values that can be stored as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

#: Version of the JSON format.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, minimum and maximum of some values."""

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
        contestant: such as "ackq".
        figure: what was measured, such as "throughput".
        unit: of the values, such as "messages/s".
        rounds: one value per round; the same index means the same round for all contestants.
        more_is_better: whether higher values are better.
    """

    case: str
    contestant: str
    figure: str
    unit: str
    rounds: tuple[float, ...]
    more_is_better: bool = False

    @property
    def spread(self) -> Spread:
        return Spread.of(self.rounds)

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that identifies the same measure in another run."""
        return self.case, self.contestant, self.figure

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), **asdict(self.spread)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(**{**_fields(cls, values), "rounds": tuple(values["rounds"])})


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two contestants compared within each round.

    ``target`` is the ratio to reach: at most, if ``ceiling``; otherwise at least.
    """

    what: str
    rounds: tuple[float, ...]
    target: float | None = None
    ceiling: bool = False

    @classmethod
    def of(
        cls,
        what: str,
        above: Sequence[float],
        below: Sequence[float],
        target: float | None = None,
        ceiling: bool = False,
    ) -> Self:
        """Divide round by round, since a disturbance of the machine affects both contestants."""
        quotients = tuple(a / b for a, b in zip(above, below, strict=True))
        return cls(what, quotients, target, ceiling)

    @property
    def spread(self) -> Spread:
        return Spread.of(self.rounds)

    @property
    def reached(self) -> bool | None:
        """Whether the median reaches the target; None if there is no target."""
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
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(**{**_fields(cls, values), "rounds": tuple(values["rounds"])})


@dataclass(slots=True)
class Result:
    """The results of one benchmark, with the circumstances.

    Attributes:
        benchmark: its name.
        facts: server, versions, machine and settings, with the seed; see `circumstances`.
        measures, ratios: the figures.
        notes: sentences that readers need, such as missing contestants and modelled figures.
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
            "measures": [measure.as_json() for measure in self.measures],
            "ratios": [ratio.as_json() for ratio in self.ratios],
            "notes": self.notes,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(
            values["benchmark"],
            values["facts"],
            [Measure.from_json(measure) for measure in values["measures"]],
            [Ratio.from_json(ratio) for ratio in values["ratios"]],
            values["notes"],
        )


def to_json(results: Iterable[Result]) -> dict[str, Any]:
    """Return the results as the content of a file."""
    return {"format": FORMAT, "results": [result.as_json() for result in results]}


def from_json(content: Any) -> list[Result]:
    """Return the results in the content of a file.

    Raises:
        ValueError: the content is not in this format.
    """
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"these are not results of ackq's benchmarks in format {FORMAT}")
    return [Result.from_json(result) for result in content["results"]]


def _fields(cls: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Leave out values that are only there for readers, such as the median."""
    return {name: values[name] for name in cls.__dataclass_fields__}
