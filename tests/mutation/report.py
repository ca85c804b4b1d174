"""``python -m tests.mutation.report``: the stored results of each sample as a part of the docs.

docs/campaign.md includes the files of docs/_mutation.
"""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from .survivors import reason_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "_mutation"
#: 95 % of a normal distribution lie within this many standard deviations.
Z = 1.96

Result = dict[str, Any]


def write(path: Path, about: dict[str, Any], results: list[Result]) -> None:
    """Store results, a line for each mutant, and the page that shows them.

    Of a test its file and function are stored, and no parameters: they may name this machine.
    """
    lines = ",\n".join(
        json.dumps(result | {"by": _function_of(result["by"])}) for result in results
    )
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{json.dumps(about)[:-1]}, "results": [\n{lines}\n]}}\n')
    path.with_suffix(".md").write_text(page(json.loads(path.read_text())))


def drawn_before(seed: int) -> set[str]:
    """Return the mutants of the stored samples with lower seeds."""
    stored = [json.loads(path.read_text()) for path in RESULTS.glob("*.json")]
    return {
        each["mutant"] for sample in stored if sample["seed"] < seed for each in sample["results"]
    }


def _function_of(test: str | None) -> str | None:
    return None if test is None else test.partition("[")[0]


def page(stored: dict[str, Any]) -> str:
    """Return the table and the survivors."""
    results: list[Result] = stored["results"]
    by_package = {
        package: [result for result in results if result["package"] == package]
        for package in stored["mutants"]
    }
    rows = [
        _row(package, stored["mutants"][package], those)
        for package, those in by_package.items()
        if those
    ]
    rows.append(_row("**all**", sum(stored["mutants"].values()), results))
    return "\n".join(
        [
            f"{len(results)} mutants drawn by seed {stored['seed']}, first tried on commits"
            f" {', '.join(stored['first tried on'])}, and those that survived again on commit"
            f" {stored['commit']}. Python {stored['python']}, redis-py {stored['redis-py']}."
            f"{_gone_since(results)}",
            "",
            f"| {stored.get('of', 'package')} | mutants | tried | equivalent | noticed | score |"
            " 95 % interval | noticed with the tests written since | score then |",
            "|---|" + "---:|" * 8,
            *rows,
            "",
            *_list("Survivors, each a gap in the tests", _survivors(results, "gap")),
            *_list(
                "Equivalent mutants, and why no test can notice them",
                _survivors(results, "equivalent"),
            ),
        ]
    )


def _gone_since(results: list[Result]) -> str:
    """Say how many mutants are of code that is no longer there; the lists leave them out."""
    count = sum(is_gone(result["mutant"]) for result in results)
    return f" Since then, the modules of {count} of them have been renamed or removed." * bool(
        count
    )


def is_gone(mutant: str) -> bool:
    """Whether the module of a mutant has been renamed or removed since."""
    return not (ROOT / mutant.partition(":")[0]).is_file()


def _row(package: str, mutants: int, results: list[Result]) -> str:
    equivalent = sum(_is_equivalent(result) for result in results)
    at_first = sum(result["at first"] for result in results)
    since = sum(result["by"] is not None for result in results)
    tried = len(results) - equivalent
    low, high = interval(at_first, tried)
    return (
        f"| {package} | {mutants:,} | {len(results)} | {equivalent} | {at_first}"
        f" | {_percent(at_first / tried)} | {_percent(low)} to {_percent(high)}"
        f" | {since} | {_percent(since / tried)} |"
    )


def interval(noticed: int, tried: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share that all mutants of the package would show."""
    share = noticed / tried
    centre = share + Z * Z / (2 * tried)
    spread = Z * math.sqrt(share * (1 - share) / tried + (Z / (2 * tried)) ** 2)
    whole = 1 + Z * Z / tried
    return (centre - spread) / whole, min(1.0, (centre + spread) / whole)


def _survivors(results: list[Result], kind: Literal["equivalent", "gap"]) -> Iterable[str]:
    for result in results:
        if is_gone(result["mutant"]):
            continue
        if result["by"] is None and _is_equivalent(result) == (kind == "equivalent"):
            reason = reason_of(result["mutant"], kind)
            because = f": {reason}" if reason else ""
            yield f"- `{result['mutant'].replace('`', chr(39))}`{because}"


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
    """Write the page again, for example after a reason was added."""
    for path in RESULTS.glob("*.json"):
        path.with_suffix(".md").write_text(page(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
