"""``python -m tests.mutation.report``: the stored results as docs/_mutation/results.md.

docs/campaign.md includes it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .equivalent import reason_of

RESULTS = Path(__file__).parents[2] / "docs" / "_mutation"
#: Of a normal distribution: 95 % lie within so many standard deviations.
Z = 1.96

Result = dict[str, Any]


def write(path: Path, about: dict[str, Any], results: list[Result]) -> None:
    """Store results, a line for each mutant, and the page that shows them."""
    lines = ",\n".join(json.dumps(each) for each in results)
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{json.dumps(about)[:-1]}, "results": [\n{lines}\n]}}\n')
    path.with_suffix(".md").write_text(page(json.loads(path.read_text())))


def page(stored: dict[str, Any]) -> str:
    """Return the table and the survivors."""
    results: list[Result] = stored["results"]
    by_package = {
        package: [each for each in results if each["package"] == package]
        for package in stored["mutants"]
    }
    rows = [
        _row(package, stored["mutants"][package], those)
        for package, those in by_package.items()
        if those
    ]
    rows.append(_row("**all**", sum(stored["mutants"].values()), results))
    return "\n".join([
        f"Tried on commits up to {stored['commit']}, seed {stored['seed']},"
        f" Python {stored['python']}, redis-py {stored['redis-py']}.",
        "",
        "| package | mutants | tried | noticed | survived | equivalent | score | 95 % interval |"
        " score before the tests were added |",
        "|---|" + "---:|" * 8,
        *rows,
        "",
        *_list("Survivors, each a gap in the tests", _survivors(results, False)),
        *_list("Equivalent mutants, and why no test can notice them", _survivors(results, True)),
    ])  # fmt: skip


def _row(package: str, mutants: int, results: list[Result]) -> str:
    equivalent = sum(_is_equivalent(each) for each in results)
    noticed = sum(each["by"] is not None for each in results)
    at_first = sum(each["at first"] for each in results)
    tried = len(results) - equivalent
    low, high = interval(noticed, tried)
    return (
        f"| {package} | {mutants:,} | {len(results)} | {noticed} | {tried - noticed} | {equivalent}"
        f" | {_percent(noticed / tried)} | {_percent(low)} to {_percent(high)}"
        f" | {_percent(at_first / tried)} |"
    )


def interval(noticed: int, tried: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share that all mutants of the package would show."""
    share = noticed / tried
    centre = share + Z * Z / (2 * tried)
    spread = Z * math.sqrt(share * (1 - share) / tried + (Z / (2 * tried)) ** 2)
    whole = 1 + Z * Z / tried
    return (centre - spread) / whole, min(1.0, (centre + spread) / whole)


def _survivors(results: list[Result], equivalent: bool) -> Iterable[str]:
    for each in results:
        if each["by"] is None and _is_equivalent(each) == equivalent:
            reason = f": {reason_of(each['mutant'])}" if equivalent else ""
            yield f"- `{each['mutant'].replace('`', chr(39))}`{reason}"


def _is_equivalent(result: Result) -> bool:
    return result["by"] is None and reason_of(result["mutant"]) is not None


def _list(title: str, lines: Iterable[str]) -> list[str]:
    """Return a part that is folded until the reader opens it."""
    items = list(lines)
    if not items:
        return []
    return [f"**{title}** ({len(items)}):", "", *items, ""]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def main() -> None:
    """Write the page anew, such as after a reason was added."""
    for path in RESULTS.glob("*.json"):
        path.with_suffix(".md").write_text(page(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
