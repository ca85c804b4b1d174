"""Write the alert rules for Prometheus, one for each kind of trouble.

Run ``python -m tools.alert_rules`` after a change of `ackq.ops.attention.model.KINDS`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ackq.ops.attention.model import KINDS, Kind

_HEAD = """\
# Written by tools/alert_rules.py. Alert rules for queues of ackq, as Prometheus loads them with
# rule_files. There is one for each kind of trouble that `ackq attention` shows, and ACKQ_LIMITS of
# the exporter says when it begins.
groups:
  - name: ackq
    rules:
"""
_RULE = """\
      - alert: {name}
        expr: >-
          {expression}
{wait}        labels:
          severity: {severity}
        annotations:
          summary: {summary}
          description: {description}
"""
#: An exporter that is restarted, or misses a scrape, ends nothing; one of two is enough.
_TROUBLE = 'max by (queue) (max_over_time(ackq_trouble{{kind="{kind}"}}[2m])) == 1'
#: The job may have any name, and the exporter may be gone for longer than a day.
_DOWN = """up{job=~"ackq.*"} == 0
          or (up == 0 and on (job, instance) max_over_time(ackq_up[15d]))
          or absent(ackq_up)"""


def name_of(kind: str) -> str:
    """Return the name of the alert for a kind of trouble."""
    return "Ackq" + "".join(word.capitalize() for word in kind.split("_"))


def rules() -> str:
    """Return the file."""
    return _HEAD + "\n".join(_rules())


def _rules() -> Iterator[str]:
    for kind, about in KINDS.items():
        yield _rule(name_of(kind), _TROUBLE.format(kind=kind), about, "{{ $labels.queue }}")
    down = Kind("critical", "Prometheus gets no figures from ackq exporter", "ackq exporter")
    yield _rule("AckqExporterDown", _DOWN, down, "", "        for: 5m\n")


def _rule(name: str, expression: str, about: Kind, queue: str, wait: str = "") -> str:
    about_queue = "{queue}" in about.help
    shown = f"See {about.help.format(queue=queue)}; for all troubles, ackq attention."
    return _RULE.format(
        name=name,
        expression=expression,
        wait=wait,
        severity=about.severity,
        summary=json.dumps(f"{about.title}{f': {queue}' if about_queue else ''}."),
        description=json.dumps(shown),
    )


if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "monitoring" / "alerts.yml").write_text(rules())
