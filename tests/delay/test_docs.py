"""What docs/delay.md and docs/sharded.md show, works."""

import re
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.test_readme import _point_at

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "count", "names"),
    [("delay.md", 4, ("reminders", "invoices")), ("sharded.md", 2, ("{jobs", "{emails"))],
)
def test_the_examples_run_one_after_the_other(
    plain_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    page: str,
    count: int,
    names: tuple[str, ...],
) -> None:
    _point_at(plain_client, monkeypatch)
    examples = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)
    scope: dict[str, Any] = {}
    try:
        for number, example in enumerate(examples):
            exec(compile(example, f"docs/{page} example {number}", "exec"), scope)
        assert scope["queue"].stats().ready == 0
    finally:
        scope["queue"].close()
        for name in names:
            for key in plain_client.scan_iter(f"{name}*"):
                plain_client.unlink(key)
    assert len(examples) == count
    shown = capsys.readouterr().out
    assert ("order-18" if page == "delay.md" else "(0, 1, 2, 3)") in shown
