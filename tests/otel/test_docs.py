"""What docs/tracing.md shows, works."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import ackq.otel
from tests.test_readme import _point_at

PAGE = (Path(__file__).parents[2] / "docs" / "tracing.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def uninstrumented() -> Iterator[None]:
    yield
    ackq.otel.uninstrument()


def test_the_examples_run_in_their_order(
    plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, uninstrumented: None
) -> None:
    _point_at(plain_client, monkeypatch)
    assert len(EXAMPLES) == 3
    scope: dict[str, Any] = {}
    try:
        for number, example in enumerate(EXAMPLES):
            exec(compile(example, f"docs/tracing.md example {number}", "exec"), scope)
    finally:
        for key in plain_client.scan_iter("jobs*"):
            plain_client.unlink(key)
