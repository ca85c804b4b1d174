"""Plant a mistake in a script, for tests that load it as the clients do, and run the named test."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from dataclasses import dataclass, field
from typing import Any

import pytest

from ackq import AckqError, scripts
from ackq.scripts import Script
from tests import waiting


@dataclass(frozen=True)
class Mutant:
    """One mistake in one script: what it does, and the test that must fail for it."""

    script: str
    mistake: str
    old: str
    new: str
    test: str  #: module and name, below the folder of the tests
    given: dict[str, Any] = field(default_factory=dict)  #: values of its parameters

    def __str__(self) -> str:
        return f"{self.script}: {self.mistake}"

    def is_noticed(
        self, folder: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> bool:
        """Return whether the named test of tests/``folder`` fails with the mistake."""
        load, planted = scripts.load, self._planted(folder)
        monkeypatch.setattr(
            scripts,
            "load",
            lambda name: planted if name == f"{folder}/{self.script}" else load(name),
        )
        # Most mistakes never come right.
        monkeypatch.setattr(waiting.wait_until, "__defaults__", (2,))
        module, name = self.test.split(".")
        function = getattr(importlib.import_module(f"tests.{folder}.{module}"), name)
        wanted = inspect.signature(function).parameters.keys() - self.given.keys()
        try:
            function(**self.given, **{each: request.getfixturevalue(each) for each in wanted})
        except (AssertionError, pytest.fail.Exception, AckqError):
            return True
        return False

    def _planted(self, folder: str) -> Script:
        text = scripts.load(f"{folder}/{self.script}").text.decode()
        assert text.count(self.old) == 1, f"{self}: the old text must occur once"
        raw = text.replace(self.old, self.new).encode()
        return Script(self.script, raw, hashlib.sha1(raw).hexdigest().encode())
