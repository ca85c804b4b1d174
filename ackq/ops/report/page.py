"""Write the report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from datetime import UTC, datetime
from html import escape

from ackq.escaping import printable
from ackq.ops.report import charts
from ackq.ops.report.summary import BrokenRule, Failure, Leased, Summary

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #202124; background: #f1f3f4; margin: 0; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 16px; margin: 0 0 8px; }
p.when { color: #5f6368; margin: 0 0 20px; }
section { background: white; border-radius: 8px; padding: 16px 20px; margin: 0 0 16px;
  box-shadow: 0 1px 2px rgb(0 0 0 / 15%); overflow-x: auto; }
.numbers { display: flex; flex-wrap: wrap; gap: 16px; margin: 0 0 16px; }
.numbers div { flex: 1 1 120px; background: white; border-radius: 8px; padding: 12px 20px;
  box-shadow: 0 1px 2px rgb(0 0 0 / 15%); }
.numbers b { display: block; font-size: 26px; font-variant-numeric: tabular-nums; }
.pair { display: flex; flex-wrap: wrap; gap: 0 16px; } .pair section { flex: 1 1 420px;
  min-width: 0; box-sizing: border-box; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: #5f6368; font-weight: 500; white-space: nowrap; }
th, td { padding: 4px 16px 4px 0; border-bottom: 1px solid #e8eaed; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.text { overflow-wrap: anywhere; } td.time { white-space: nowrap; }
"""

_STATES = ("ready", "in flight", "delayed", "dead")

#: The content of a cell, which decides its style.
Value = str | int | datetime


def page(summary: Summary) -> str:
    """Return the page."""
    queues = summary.queues
    states = [
        (queue.ready, queue.in_flight, queue.delayed, queue.dead) for queue in queues.values()
    ]
    parts = [_totals(states)]
    if summary.failures:
        parts += [
            _section("Dead letters over time, by reason", charts.over_time(summary)),
            '<div class="pair">',
            _section("By queue", charts.by_queue(summary)),
            _section("By age", charts.by_age(summary)),
            "</div>",
            _section("By queue and reason", _list(summary.failures)),
        ]
        if summary.broken_rules:
            title = "Rejected by pipelines, by field and rule"
            parts.append(_section(title, _list(summary.broken_rules)))
    else:
        parts.append(_section("Dead letters", "<p>There are none.</p>"))
    if summary.leased:
        parts.append(_section("In flight", _list(summary.leased)))
    rows = [(name, *counts) for name, counts in zip(queues, states, strict=True)]
    parts.append(_section("All queues", _table(("queue", *_STATES), rows)))
    when = _text(datetime.fromtimestamp(summary.taken_at, UTC))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Queues on {when}</title>\n<style>{_STYLE}{charts.STYLE}</style>\n"
        "<main>\n<h1>Queues</h1>\n"
        f'<p class="when">{when} UTC, by the clock of Redis</p>\n'
        + "\n".join(parts)
        + "\n</main>\n"
    )


def _totals(states: Sequence[Sequence[int]]) -> str:
    totals = [sum(each) for each in zip(*states, strict=True)] or [0] * len(_STATES)
    boxes = "".join(
        f"<div><b>{total:,}</b>{name}</div>"
        for name, total in zip((*_STATES, "queues"), (*totals, len(states)), strict=True)
    )
    return f'<div class="numbers">{boxes}</div>'


def _list(items: Sequence[Failure] | Sequence[BrokenRule] | Sequence[Leased]) -> str:
    names = [field.name.replace("_", " ") for field in fields(items[0])]
    return _table(names, [astuple(item) for item in items])


def _table(names: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    kinds = [_kind(value) for value in rows[0]] if rows else ["text"] * len(names)
    head = "".join(f'<th class="{kind}">{name}' for kind, name in zip(kinds, names, strict=True))
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}" for row in rows)
    return f"<table><thead><tr>{head}</thead>\n<tbody>{body}</tbody></table>"


def _cell(value: Value) -> str:
    # Names and reasons may come from anyone who can push.
    return f'<td class="{_kind(value)}">{escape(printable(_text(value)))}'


def _kind(value: Value) -> str:
    return {int: "number", datetime: "time"}.get(type(value), "text")


def _text(value: Value) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,}" if isinstance(value, int) else value


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>\n{content}</section>"
