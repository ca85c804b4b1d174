"""The report as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from ackq.escaping import printable
from ackq.spark.report import charts
from ackq.spark.report.summary import Summary

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #202124; background: #f1f3f4; margin: 0; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 16px; margin: 0 0 8px; }
p.when { color: #5f6368; margin: 0 0 20px; }
section { background: white; border-radius: 8px; padding: 16px 20px; margin: 0 0 16px;
  box-shadow: 0 1px 2px rgb(0 0 0 / 15%); overflow-x: auto; }
svg { max-width: 100%; height: auto; display: block; }
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
code { font: 13px ui-monospace, monospace; }
"""

#: A cell: its class and its text.
Cell = tuple[str, str]


def page(summary: Summary) -> str:
    """Return the page."""
    parts = [_numbers(summary)]
    if summary.failures:
        parts += [
            _section("Dead letters over time, by reason", charts.over_time(summary)),
            '<div class="pair">',
            _section("By queue", charts.by_queue(summary)),
            _section("By age", charts.by_age(summary)),
            "</div>",
            _section("By queue and reason", _failures(summary)),
        ]
    else:
        parts.append(_section("Dead letters", "<p>There are none.</p>"))
    if summary.held:
        parts.append(_section("In flight", _held(summary)))
    parts.append(_section("All queues", _queues(summary)))
    when = _time(datetime.fromtimestamp(summary.seen.taken_at, UTC))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Queues on {when}</title>\n<style>{_STYLE}</style>\n<main>\n<h1>Queues</h1>\n"
        f'<p class="when">{when} UTC, by the clock of Redis</p>\n'
        + "\n".join(parts)
        + "\n</main>\n"
    )


def _numbers(summary: Summary) -> str:
    ready = sum(each.ready for each in summary.seen.queues.values())
    delayed = sum(each.delayed for each in summary.seen.queues.values())
    named = {"dead": summary.dead, "in flight": summary.in_flight, "ready": ready,
             "delayed": delayed, "queues": len(summary.seen.queues)}  # fmt: skip
    boxes = "".join(f"<div><b>{count:,}</b>{name}</div>" for name, count in named.items())
    return f'<div class="numbers">{boxes}</div>'


def _failures(summary: Summary) -> str:
    return _table(
        ("queue", "reason", "dead", "first", "last", "most receives", "the latest"),
        [
            [("text", each.queue), ("text", each.reason), ("number", f"{each.count:,}"),
             ("time", _time(each.first)), ("time", _time(each.last)),
             ("number", f"{each.receives:,}"), ("code", each.entry)]
            for each in summary.failures
        ],
    )  # fmt: skip


def _held(summary: Summary) -> str:
    return _table(
        ("queue", "in flight", "most receives", "first lease ends", "last lease ends"),
        [
            [("text", each.queue), ("number", f"{each.count:,}"), ("number", f"{each.receives:,}"),
             ("time", _time(each.first)), ("time", _time(each.last))]
            for each in summary.held
        ],
    )  # fmt: skip


def _queues(summary: Summary) -> str:
    return _table(
        ("queue", "ready", "in flight", "delayed", "dead"),
        [
            [("text", name), *(("number", f"{count:,}") for count in
                               (each.ready, each.in_flight, each.delayed, each.dead))]
            for name, each in summary.seen.queues.items()
        ],
    )  # fmt: skip


def _table(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    rows = list(rows)
    kinds = [kind for kind, _ in rows[0]] if rows else ["text"] * len(names)
    head = "".join(f'<th class="{kind}">{name}' for kind, name in zip(kinds, names, strict=True))
    body = "\n".join("<tr>" + "".join(_cell(*cell) for cell in row) for row in rows)
    return f"<table><thead><tr>{head}</thead>\n<tbody>{body}</tbody></table>"


def _cell(kind: str, text: str) -> str:
    # Names and reasons come from whoever pushes.
    text = escape(printable(text))
    return f'<td class="{kind}">' + (f"<code>{text}</code>" if kind == "code" else text)


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>\n{content}</section>"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"
