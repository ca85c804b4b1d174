"""What the README shows, works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from ackq import embedded

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
#: Where the files of the checkout stand on the web.
BLOB = "https://github.com/ackq/ackq/blob/main/"
#: Where ackq and Python are installed.
BIN = Path(sys.executable).parent
#: What the examples leave behind.
KEYS = ("jobs*", "payments*", "rsmq:*", "reminders*", "prices*", "{jobs:*", "*{jobs}*")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(
    number: int, embedded_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _point_at(embedded_client, monkeypatch)
    monkeypatch.setenv("ACKQ_HOME", str(tmp_path))
    try:
        exec(compile(EXAMPLES[number], f"README example {number}", "exec"), {})
    finally:
        embedded.stop_shared()
        for pattern in KEYS:
            for key in embedded_client.scan_iter(pattern):
                embedded_client.unlink(key)


def test_the_first_steps_run_as_printed_with_nothing_else_installed(tmp_path: Path) -> None:
    """The shell's lines and the example beside them, one after the other, on a new account."""
    section = README[README.index("## Try it") : README.index("## Switch one line")]
    steps = re.findall(r"^```(sh|python)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    environment = {name: value for name, value in os.environ.items() if name != "ACKQ_REDIS_URL"}
    environment |= {"ACKQ_HOME": str(tmp_path), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    printed = []
    try:
        for kind, text in steps:
            lines = text.replace("ackq demo\n", "ackq demo --seconds 0.5 --input README.md\n")
            lines = re.sub(r"^pip install .*$", "", lines, flags=re.MULTILINE)
            command = [sys.executable, "-c", lines] if kind == "python" else ["sh", "-ec", lines]
            done = subprocess.run(command, env=environment, capture_output=True, text=True,
                                  timeout=50, check=False, cwd=ROOT)  # fmt: skip
            assert done.returncode == 0, done.stderr
            printed.append(done.stdout)
    finally:
        subprocess.run([BIN / "ackq", "serve", "--stop"], env=environment, check=True,
                       capture_output=True)  # fmt: skip
    assert "nothing was lost" in printed[0]
    assert '"task": "resize"' in printed[1]
    assert printed[2] == "resize\n"


def test_there_are_examples_to_run() -> None:
    assert len(EXAMPLES) >= 4


def test_every_page_that_the_readme_links_to_exists() -> None:
    """PyPI shows this page without the pages beside it, so its links are absolute."""
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README)
    assert any(link.startswith(BLOB) for link in links)
    for link in links:
        assert link.startswith("https://"), link
        assert not link.startswith(BLOB) or (ROOT / link.removeprefix(BLOB)).is_file(), link


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
