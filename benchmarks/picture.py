"""The content of a picture, as a value. `benchmarks.drawing` draws it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Picture:
    """One chart of one figure of a benchmark.

    Attributes:
        name: of its file, without the benchmark's name and ``.png``.
        title: of the picture.
        figure: the figure of the measures to draw.
        kind: "bars": a group for each case, a bar for each contestant, a whisker from the least
            round to the greatest. "lines": a line for each contestant over ``Measure.at``, and
            a band; measures of several cases are lines of their own.
        cases: prefixes of the cases to show; if empty, every case that has the figure.
        contestants: the contestants to show, in this order; if empty, all.
        relative_to: draw multiples of this contestant's figure in the same round and case.
        x: what ``Measure.at`` counts, for lines.
        scale: of the x axis of lines; "percentile": ``at`` is a share such as 0.99.
        log: whether the y axis is logarithmic.
        caption: what readers need to know.
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
