"""Pass settings to spark-submit in a file: anyone on the machine can read a command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

#: In a value, what would end a line or begin an escape; in a key, also what would end the key.
_VALUE = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_KEY = {**_VALUE, " ": "\\ ", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"}


def write_properties(file: Path, settings: Mapping[str, str]) -> list[str]:
    """Write a file that only this user can read; return the arguments that pass it.

    spark-defaults.conf still applies to settings that are not in the file.
    """
    lines = [f"{_escaped(key, _KEY)}={_escaped(value, _VALUE)}" for key, value in settings.items()]
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        opened.write("\n".join([*lines, ""]))
    return ["--properties-file", str(file), "--load-spark-defaults"]


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(each, each) for each in text)
