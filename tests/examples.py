"""The examples of documentation pages, on the server of a test."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

ROOT = Path(__file__).parent.parent
#: ``run_examples("docs/topic.md")`` runs the examples of a page, one after the other, and returns
#: what they define. ``only`` is the index of the one to run, and ``scope`` what is defined before.
RunExamples = Callable[..., dict[str, Any]]


def examples(page: str) -> list[str]:
    """Return the examples in Python that can be run as they stand."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


@pytest.fixture
def run_examples(
    plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunExamples]:
    """See `RunExamples`. The keys that they leave behind are deleted."""
    point_at(plain_client, monkeypatch)
    before = set(plain_client.scan_iter())

    def run(
        page: str, only: int | None = None, scope: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        scope = {} if scope is None else scope
        for number, example in enumerate(examples(page)):
            if only in (None, number):
                exec(compile(example, f"{page} example {number}", "exec"), scope)
        return scope

    yield run
    for key in set(plain_client.scan_iter()) - before:
        plain_client.unlink(key)


def point_at(server: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make examples use the test's server, as the embedded one and as the one on port 6379."""
    settings = server.connection_pool.connection_kwargs
    address = {"host": settings["host"], "port": settings["port"]}
    url = f"redis://{settings['host']}:{settings['port']}/0"
    monkeypatch.setattr("ackq.embedded.shared_url", lambda: url)

    def here(original: Any) -> Any:
        class Here(original):  # type: ignore[misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **(address | kwargs))

        return Here

    monkeypatch.setattr(redis, "Redis", here(redis.Redis))
    monkeypatch.setattr(redis.asyncio, "Redis", here(redis.asyncio.Redis))
