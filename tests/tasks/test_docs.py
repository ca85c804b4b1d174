"""What docs/tasks.md shows, works."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest
import redis

from ackq.cli.work import work
from tests.test_readme import _point_at

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_options_that_the_page_names_exist() -> None:
    options = {name for parameter in work.params for name in parameter.opts}
    assert {*re.findall(r"(?<!\w)--[a-z][a-z-]+", PAGE)} - {"--strict"} <= options


def test_the_examples_run_one_after_the_other(
    plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _point_at(plain_client, monkeypatch)
    assert len(EXAMPLES) >= 7
    module = types.ModuleType("images")
    monkeypatch.setitem(sys.modules, "images", module)
    try:
        for number, example in enumerate(EXAMPLES):
            exec(compile(example, f"docs/tasks.md example {number}", "exec"), vars(module))
        assert plain_client.xlen("images-mailDEAD") == 1
    finally:
        for key in plain_client.scan_iter("images*"):
            plain_client.unlink(key)
    shown = capsys.readouterr().out
    assert "Expected `int`, got `str` - at `$.width`" in shown
    assert "shop.pay 0.0" in shown
