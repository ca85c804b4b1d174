"""What a picture shows, as a value: how it is drawn is `benchmarks.drawing`'s business."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Picture:
    """One chart of one figure of a benchmark.

    Attributes:
        name: of its file, without the benchmark's name and ``.png``.
        title: what is seen.
        figure: which figure of the measures is drawn.
        kind: "bars": a group for each case, a bar for each contestant, a whisker from the least
            round to the greatest. "lines": a line for each contestant over ``Measure.at``, and
            a band; measures of several cases are lines of their own.
        cases: which cases, by how they begin; none: every case that has the figure.
        contestants: which, in this order; none: everybody.
        relative_to: draw multiples of this contestant's figure in the same round and case.
        x: what ``Measure.at`` counts, for lines.
        scale: of the x axis of lines; "percentile": ``at`` is a share such as 0.99.
        log: whether the y axis is logarithmic.
        caption: what to know when reading it.
    """

    name: str
    title: str
    figure: str
    kind: Literal["bars", "lines"] = "bars"
    cases: Sequence[str] = ()
    contestants: Sequence[str] = ()
    relative_to: str | None = None
    x: str = ""
    scale: Literal["linear", "log", "percentile"] = "linear"
    log: bool = False
    caption: str = ""
