"""Packages import what a program uses, and no more."""

import importlib
import subprocess
import sys

import pytest

PACKAGES = (
    *("ackq", "ackq.delay", "ackq.queue", "ackq.topic"),
    *(pytest.param(f"ackq.spark{each}", marks=pytest.mark.spark) for each in ("", ".pipeline")),
)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_of_a_package_can_be_imported_and_is_listed(name: str) -> None:
    package = importlib.import_module(name)
    imported: dict[str, object] = {}
    exec(f"from {name} import *", imported)
    assert {*package.__all__} <= imported.keys() & {*dir(package)}
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'Quue'"):
        _ = package.Quue


def test_importing_ackq_imports_little_until_a_name_is_used() -> None:
    count = "len([name for name in sys.modules if name.startswith('ackq')])"
    code = f"import sys, ackq; print({count}); ackq.Queue; print({count})"
    shown = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    few, all_of_it = map(int, shown.stdout.split())
    assert few < 10 < 50 < all_of_it
