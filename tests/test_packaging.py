"""What is installed is what is in the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


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
    assert len(names.split()) == len(list((ROOT / "lua").rglob("*.lua")))


def test_the_package_is_typed_and_the_wheel_holds_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "ackq/py.typed" in names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "ackq",
        "pyspark_ackq.py",
    }
