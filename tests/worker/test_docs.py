"""What docs/worker.md shows, works."""

import re
from pathlib import Path

import pytest
import redis

from ackq.cli.work import work
from ackq.cli.workers import workers
from tests.test_readme import _point_at

PAGE = (Path(__file__).parents[2] / "docs" / "worker.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(
    number: int, plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _point_at(plain_client, monkeypatch)
    try:
        exec(compile(EXAMPLES[number], f"docs/worker.md example {number}", "exec"), {})
    finally:
        for queue in (
            "images",
            "uploads",
            "reports",
            "checks",
            "urgent",
            "usual",
            "accounts",
            "greetings",
            "divisions",
            "kinds",
            "rows",
        ):
            for key in plain_client.scan_iter(f"{queue}*"):
                plain_client.unlink(key)


def test_there_are_examples_to_run() -> None:
    assert len(EXAMPLES) >= 8


def test_options_that_the_page_names_exist() -> None:
    commands = [work, workers, *workers.commands.values()]
    options = {name for each in commands for parameter in each.params for name in parameter.opts}
    shown = set(re.findall(r"(?<![\w`'])(--[a-z][a-z-]+)", PAGE)) | set(
        re.findall(r"`(--[a-z][a-z-]+)", PAGE)
    )
    assert shown - {"--help"} <= options
