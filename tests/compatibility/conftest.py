"""The previous release, installed beside the code under test."""

import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WITHOUT

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
#: Calls a function of the tests, and prints where ackq was imported from and what it returned.
CALL = """
import importlib, json, pickle, sys
module, name, arguments = pickle.loads(bytes.fromhex(sys.argv[1]))
result = getattr(importlib.import_module(module), name)(*arguments)
import ackq
print(json.dumps([ackq.__file__, result]))
"""


class Release:
    """A release of ackq, whose processes use its code and the environment's dependencies."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder

    def start(self, function: Callable[..., Any], *arguments: Any) -> subprocess.Popen[str]:
        """Start a process that calls ``function``."""
        call = pickle.dumps((function.__module__, function.__name__, arguments)).hex()
        path = os.pathsep.join(map(str, (self.folder, ROOT, WITHOUT)))
        return subprocess.Popen(
            [sys.executable, "-c", CALL, call],
            text=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            cwd=self.folder,
        )

    def result(self, process: subprocess.Popen[str]) -> Any:
        """Return what the function returned, once it has."""
        printed, _ = process.communicate(timeout=40)
        assert process.returncode == 0
        imported, result = json.loads(printed)
        assert Path(imported).is_relative_to(self.folder)
        return result

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``function`` in a process of this release."""
        return self.result(self.start(function, *arguments))


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The previous release, from the wheel in this folder. A pure wheel needs only unpacking."""
    (wheel,) = HERE.glob("*.whl")
    folder = tmp_path_factory.mktemp("previous")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return Release("previous", folder)


@pytest.fixture(scope="session")
def current() -> Release:
    """The code under test."""
    return Release("current", ROOT)
