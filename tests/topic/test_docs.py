"""What docs/topic.md shows, works."""

import re
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.test_readme import _point_at

PAGE = (Path(__file__).parents[2] / "docs" / "topic.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_examples_run_one_after_the_other(
    plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _point_at(plain_client, monkeypatch)
    scope: dict[str, Any] = {}
    try:
        for number, example in enumerate(EXAMPLES):
            exec(compile(example, f"docs/topic.md example {number}", "exec"), scope)
    finally:
        scope["topic"].close()
        for name in ("prices", "clicks"):
            for key in plain_client.scan_iter(f"{name}:*"):
                plain_client.unlink(key)
    assert len(EXAMPLES) == 3
