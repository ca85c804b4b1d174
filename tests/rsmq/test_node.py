"""Where the original cannot be had, the run says why."""

import os
from pathlib import Path

import pytest

from tests.rsmq.node import Missing, installed


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ({}, "node is not on PATH"),
        ({"node": "true"}, "npm is not on PATH"),
        ({"node": "true", "npm": "echo 'npm error network down' >&2; exit 1"}, "network down"),
    ],
)
def test_the_reason_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: dict[str, str], reason: str
) -> None:
    for name, body in programs.items():
        program(tmp_path, name, body)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(Missing, match=reason):
        installed.__wrapped__()


def test_it_is_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "node", "true")
    program(tmp_path, "npm", f'echo "$@" >> {tmp_path}/calls; mkdir -p "$3/node_modules/rsmq"')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert installed.__wrapped__().is_dir()
    assert installed.__wrapped__().is_dir()
    assert len((tmp_path / "calls").read_text().splitlines()) == 1
