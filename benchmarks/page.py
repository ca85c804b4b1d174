"""The report: one HTML page with embedded pictures, and the pictures as separate files."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ackq.bench.figures import Result
from ackq.bench.tables import number
from benchmarks.drawing import draw, draw_targets
from benchmarks.registry import benchmark

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 3rem; border-top: 1px solid #ddd; padding-top: 1.5rem; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; margin: .8rem 0; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid #eee;
         font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
tr.group td { font-weight: 600; padding-top: .9rem; }
.reached { color: #217a3f; } .missed { color: #b3261e; font-weight: 600; }
figure { margin: 1.2rem 0; } img { max-width: 100%; height: auto; }
figcaption, .facts, li { font-size: .9rem; color: #555; }
summary { cursor: pointer; margin-top: 1rem; } nav a { margin-right: .9rem; }
"""
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ackq: benchmarks</title><style>{style}</style></head><body>
<h1>ackq: benchmarks</h1>
<p>Medians of the rounds; in brackets the least and the greatest. Contestants took turns on one
server, and ratios are taken within a round: believe them more than the rates.</p>
<nav>{links}</nav>
"""


def write_report(results: Sequence[Result], folder: Path) -> None:
    """Write a PNG for each picture, and ``index.html``, into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    links = "".join(
        f'<a href="#{_e(result.benchmark)}">{_e(result.benchmark)}</a>' for result in results
    )
    parts = [HEAD.format(style=STYLE, links=links)]
    parts += [_section(result, folder) for result in results]
    (folder / "index.html").write_text("\n".join([*parts, "</body></html>\n"]), encoding="utf-8")


def _section(result: Result, folder: Path) -> str:
    module = benchmark(result.benchmark)
    parts = [
        f'<h2 id="{_e(result.benchmark)}">{_e(result.benchmark)}</h2>',
        f"<p>{_e(module.PURPOSE)}</p>",
        _facts(result.facts),
    ]
    if result.notes:
        parts.append("<ul>" + "".join(f"<li>{_e(note)}</li>" for note in result.notes) + "</ul>")
    path = folder / f"{result.benchmark}-targets.png"
    if draw_targets(result.ratios, path):
        parts.append(_picture(path, "Ratios with a target", ""))
    for picture in module.PICTURES:
        path = folder / f"{result.benchmark}-{picture.name}.png"
        if draw(result, picture, path):
            parts.append(_picture(path, picture.title, picture.caption))
    if result.ratios:
        parts.append(_ratios(result))
    parts.append(f"<details><summary>All figures</summary>{_measures(result)}</details>")
    return "\n".join(parts)


def _facts(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    machine = facts["machine"]
    settings = ", ".join(f"{name} {value}" for name, value in facts["settings"].items())
    lines = (
        f"Server: {facts['server']}.",
        f"Versions: {versions}.",
        f"Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB,"
        f" {machine['kernel']}.",
        f"Settings: {settings}.",
    )
    return f'<p class="facts">{"<br>".join(map(_e, lines))}</p>'


def _picture(path: Path, title: str, caption: str) -> str:
    data = b64encode(path.read_bytes()).decode()
    return (
        f'<figure><img alt="{_e(title)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{_e(caption)}</figcaption></figure>"
    )


def _ratios(result: Result) -> str:
    rows = []
    for ratio in result.ratios:
        kind = {True: "reached", False: "missed", None: ""}[ratio.reached]
        low_high = f"{number(ratio.spread.min)}-{number(ratio.spread.max)}"
        cells = (ratio.what, number(ratio.spread.median), low_high)
        rows.append(f'{_row(cells)[:-5]}<td class="{kind}">{_e(ratio.verdict)}</td></tr>')
    return _table(("ratio within a round", "median", "min-max", "target"), rows)


def _measures(result: Result) -> str:
    rows, case = [], None
    for measure in result.measures:
        if measure.case != case:
            case = measure.case
            rows.append(f'<tr class="group"><td colspan="5">{_e(case)}</td></tr>')
        spread = measure.spread
        low_high = f"{number(spread.min)}-{number(spread.max)}"
        rows.append(
            _row(
                (measure.contestant, measure.figure, number(spread.median), low_high, measure.unit)
            )
        )
    return _table(("contestant", "figure", "median", "min-max", "unit"), rows)


def _table(head: Iterable[str], rows: Iterable[str]) -> str:
    cells = "".join(f"<th>{_e(each)}</th>" for each in head)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{_e(cell)}</td>" for cell in cells) + "</tr>"


def _e(text: object) -> str:
    return escape(str(text))
