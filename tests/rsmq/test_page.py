"""What docs/rsmq.md shows, works."""

import re
from pathlib import Path

import pytest
import redis

from tests.test_readme import _point_at

PAGE = (Path(__file__).parents[2] / "docs" / "rsmq.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(2))
def test_an_example_runs(
    number: int, plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _point_at(plain_client, monkeypatch)
    try:
        exec(compile(EXAMPLES[number], f"docs/rsmq.md example {number}", "exec"), {})
        counts = plain_client.hget(f"rsmq:{('mail', 'orders')[number]}:Q", "totalrecv")
        assert counts == (b"1", b"100")[number]
        assert plain_client.zcard(f"rsmq:{('mail', 'orders')[number]}") == 0
    finally:
        for key in plain_client.scan_iter("rsmq:*"):
            plain_client.unlink(key)
