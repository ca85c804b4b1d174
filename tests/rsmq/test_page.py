"""What docs/rsmq.md shows, works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

PAGE = (Path(__file__).parents[2] / "docs" / "rsmq.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(2))
def test_an_example_runs(
    number: int, plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = plain_client.connection_pool.connection_kwargs
    address = {"host": settings["host"], "port": settings["port"]}
    for module in (redis, redis.asyncio):
        monkeypatch.setattr(module, "Redis", _at(module.Redis, address))
    try:
        exec(compile(EXAMPLES[number], f"docs/rsmq.md example {number}", "exec"), {})
        counts = plain_client.hget(f"rsmq:{('mail', 'orders')[number]}:Q", "totalrecv")
        assert counts == (b"1", b"100")[number]
        assert plain_client.zcard(f"rsmq:{('mail', 'orders')[number]}") == 0
    finally:
        for key in plain_client.scan_iter("rsmq:*"):
            plain_client.unlink(key)


def _at(original: Any, address: dict[str, Any]) -> Any:
    """Return a client class whose default address is the test's server."""

    class Here(original):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **(address | kwargs))

    return Here
