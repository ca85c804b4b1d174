"""The installed package has the files of the checkout."""

import re
import subprocess
import sys
import tomllib
import zipfile
from datetime import date
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

import ackq
from ackq import scripts
from ackq.scripts import FORMAT

ROOT = Path(__file__).parent.parent
#: Where the command is installed.
BIN = Path(sys.executable).parent
# One process builds the wheel for all of them.
pytestmark = pytest.mark.xdist_group("packaging")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the sdist, as an installer without a wheel would."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_carries_every_script_byte_for_byte(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        carried = {
            name.removeprefix("ackq/"): archive.read(name)
            for name in archive.namelist()
            if name.startswith("ackq/lua/")
        }
    assert carried == {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in (ROOT / "lua").rglob("*")
        if path.is_file()
    }


def test_the_installed_package_uses_its_own_scripts(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "import ackq.scripts as s; print(s.directory()); print(*s.names()); s.load('pop')"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    directory, names = result.stdout.splitlines()
    assert directory == str(tmp_path / "ackq" / "lua")
    assert names.split() == scripts.names()


def test_the_package_is_typed_and_the_wheel_holds_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "ackq/py.typed" in names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "ackq",
        "pyspark_ackq.py",
        "pytest_ackq.py",
        "_ackq_command.py",
    }


def test_pytest_finds_the_plugin(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        assert b"[pytest11]\nackq = pytest_ackq\n" in archive.read(name)


def test_the_guide_lists_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "install.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", page.split("## Extras")[1].split("\n## ")[0], re.M)
    assert {*listed} == {*project["optional-dependencies"]}


def test_versions_agree(wheel: Path) -> None:
    """One version, dates in the changelog, and a recorded wheel that is not newer than the code."""
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "Unreleased"
    released = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)", head) for head in heads[1:]]
    assert all(released), "a head is not like '0.2.0 - 2026-12-24'"
    dated = [(date.fromisoformat(each[2]), Version(each[1])) for each in released if each]
    assert dated == sorted(dated, reverse=True)
    current, recorded = version_of(wheel), version_of(*(ROOT / "tests/compatibility").glob("*.whl"))
    assert str(current) == ackq.__version__
    assert recorded <= current
    if dated:
        assert recorded == dated[0][1] or current == dated[0][1]
    else:
        assert recorded.is_prerelease


def version_of(wheel: Path) -> Version:
    return Version(wheel.name.split("-")[1])


def test_the_format_is_the_documented_one(wheel: Path) -> None:
    for page, words in (
        ("docs/compatibility.md", "format is **{}**"),
        ("lua/README.md", "format {} "),
    ):
        assert words.format(FORMAT) in (ROOT / page).read_text(), page
    done = subprocess.run([BIN / "ackq", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f", format {FORMAT}\n")


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda p: p.stem
)
def test_a_workflow_pins_actions_by_commit_and_limits_its_time(path: Path) -> None:
    text = path.read_text()
    for action in re.findall(r"uses: (\S+)", text):
        assert action.startswith("./") or re.search(r"@[0-9a-f]{40}$", action), action
    jobs = yaml.safe_load(text)["jobs"].values()
    assert all("timeout-minutes" in job or "uses" in job for job in jobs)


def test_a_release_waits_for_the_tests() -> None:
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    assert release["publish"]["needs"] == ["test", "build"]
