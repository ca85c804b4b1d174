"""Each page works for a new user: the built wheel, a fresh environment, an empty home.

The other tests of pages run in the environment of a contributor, which has every extra.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Pages whose examples run from top to bottom as they are, without an extra.
PLAIN = (
    *("README.md", "docs/index.md", "docs/tutorial.md", "docs/retries.md", "docs/find.md"),
    *("docs/idempotence.md", "docs/delay.md", "docs/topic.md", "docs/rsmq.md", "docs/sharded.md"),
)
#: All such pages, with the extra and the package that a reader has installed besides.
PAGES = {
    **dict.fromkeys(PLAIN, ("embedded",)),
    "docs/recipes.md": ("embedded", "fastapi"),
    "docs/metrics.md": ("embedded,metrics",),
    "docs/tracing.md": ("embedded,otel", "opentelemetry-sdk"),
}
pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("packaging"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", out, ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run_as_pasted(page: str, wheel: Path, tmp_path: Path) -> None:
    _run(sys.executable, "-m", "venv", tmp_path / "venv")
    commands = tmp_path / "venv" / "bin"
    extra, *others = PAGES[page]
    _run(commands / "pip", "install", "--quiet", f"{wheel}[{extra}]", *others)
    text = (ROOT / page).read_text()
    example = tmp_path / "example.py"
    example.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)))
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{commands}:{os.environ['PATH']}",
        "ACKQ_HOME": str(tmp_path / "home"),
    }
    try:
        _run(commands / "python", example, cwd=tmp_path, env=environment)
    finally:
        _run(commands / "ackq", "serve", "--stop", env=environment)


def _run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
