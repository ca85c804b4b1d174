"""The examples of the guides run, in the order in which a page shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.test_readme import _point_at

DOCS = Path(__file__).parents[1] / "docs"
#: Pages, with how many of their examples run and the names of their queues.
PAGES = {
    "tutorial.md": (5, "tutorial*"),
    "retries.md": (2, "mails*"),
    "idempotence.md": (1, "payments*"),
    "index.md": (1, "jobs*"),
}


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(
    page: str, embedded_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _point_at(embedded_client, monkeypatch)
    address = embedded_client.connection_pool.connection_kwargs
    url = f"redis://{address['host']}:{address['port']}"
    monkeypatch.setattr("ackq.embedded.shared_url", lambda: url)
    count, names = PAGES[page]
    examples = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)
    assert len(examples) == count
    scope: dict[str, Any] = {}
    try:
        for number, example in enumerate(examples):
            exec(compile(example, f"docs/{page} example {number}", "exec"), scope)
    finally:
        for key in embedded_client.scan_iter(names):
            embedded_client.unlink(key)
