"""What the README shows, works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

README = (Path(__file__).parent.parent / "README.md").read_text()
#: What the examples leave behind.
KEYS = ("jobs*", "payments*", "rsmq:*", "reminders*", "prices*", "{jobs:*", "*{jobs}*")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(
    number: int, embedded_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _point_at(embedded_client, monkeypatch)
    try:
        exec(compile(EXAMPLES[number], f"README example {number}", "exec"), {})
    finally:
        for pattern in KEYS:
            for key in embedded_client.scan_iter(pattern):
                embedded_client.unlink(key)


def test_there_are_examples_to_run() -> None:
    assert len(EXAMPLES) >= 4


def test_every_page_that_the_readme_links_to_exists() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("http") or (Path(__file__).parent.parent / link).exists(), link


def _point_at(server: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a client with default settings connect to the test's server."""
    settings = server.connection_pool.connection_kwargs
    address = {"host": settings["host"], "port": settings["port"]}

    def here(original: Any) -> Any:
        class Here(original):  # type: ignore[misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **(address | kwargs))

        return Here

    monkeypatch.setattr(redis, "Redis", here(redis.Redis))
    monkeypatch.setattr(redis.asyncio, "Redis", here(redis.asyncio.Redis))
