"""Compare two runs."""

import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ackq.bench.figures import Result
from ackq.bench.tables import number, table

#: Samples drawn to find how far a median may be off by chance; and the share that is noise.
SAMPLES = 400
CONFIDENCE = 0.95


def comparison_of(old: Sequence[Result], new: Sequence[Result]) -> str:
    """Return new divided by old, as text, for everything in both runs."""
    before = {each.benchmark: each for each in old}
    parts = [
        part
        for each in new
        if each.benchmark in before
        for part in _benchmark(before[each.benchmark], each)
    ]
    left_out = {each.benchmark for each in old} ^ {each.benchmark for each in new}
    if left_out:
        parts.append(f"in one run only: {', '.join(sorted(left_out))}")
    return "\n\n".join(parts)


def quotient(old: Sequence[float], new: Sequence[float]) -> tuple[float, float, float]:
    """Return the quotient of the medians, with the interval that chance alone would allow.

    The interval comes from resampling the rounds. It does not cover other differences between two
    runs, such as the time of day on a shared machine.
    """
    draw = random.Random(1)
    drawn = sorted(
        statistics.median(draw.choices(new, k=len(new)))
        / statistics.median(draw.choices(old, k=len(old)))
        for _ in range(SAMPLES)
    )
    tail = round(SAMPLES * (1 - CONFIDENCE) / 2)
    return statistics.median(new) / statistics.median(old), drawn[tail], drawn[-1 - tail]


def verdict(low: float, high: float, rounds: int, more_is_better: bool) -> str:
    """Return whether a quotient is better, worse or within the noise."""
    if rounds < 2:
        return "one round: no spread"
    if low <= 1 <= high:
        return "within noise"
    return "better" if (low > 1) is more_is_better else "WORSE"


def _benchmark(old: Result, new: Result) -> Iterable[str]:
    yield f"{new.benchmark}: new / old"
    if differing := _differences(old.facts, new.facts):
        yield "of the old run -> of the new one\n" + "\n".join(f"  {each}" for each in differing)
    ratios = _rows(
        {ratio.what: ratio for ratio in old.ratios},
        {ratio.what: ratio for ratio in new.ratios},
        lambda key, each: (key, not each.ceiling),
    )
    if ratios:
        yield table(["ratios within a round", "old", "new", "new / old", "by chance", ""], ratios)
    measures = _rows(
        {measure.key: measure for measure in old.measures},
        {measure.key: measure for measure in new.measures},
        lambda key, each: (
            f"{each.case}: {each.contestant}: {each.figure}, {each.unit}",
            each.more_is_better,
        ),
    )
    if measures:
        yield table(["measures", "old", "new", "new / old", "by chance", ""], measures)


def _rows(
    old: dict[Any, Any],
    new: dict[Any, Any],
    name: Callable[[Any, Any], tuple[str, bool]],
) -> list[list[str]]:
    rows = []
    for key, after in new.items():
        before = old.get(key)
        if before is None or not all((*before.rounds, *after.rounds)):
            continue
        what, more_is_better = name(key, after)
        middle, low, high = quotient(before.rounds, after.rounds)
        fewest = min(len(before.rounds), len(after.rounds))
        rows.append(
            [
                what,
                number(before.spread.median),
                number(after.spread.median),
                f"{middle:.3f}",
                f"{low:.3f}-{high:.3f}",
                verdict(low, high, fewest, more_is_better),
            ]
        )
    return rows


def _differences(old: dict[str, Any], new: dict[str, Any], path: str = "") -> list[str]:
    found = []
    for name in old | new:
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            found += _differences(before, after, f"{path}{name} ")
        elif before != after or name == "commit":  # said in any case: it names the code
            found.append(f"{path}{name}: {before} -> {after}")
    return found
