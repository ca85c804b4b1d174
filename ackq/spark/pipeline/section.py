"""Read a section of a configuration. Errors name the file, the key and a fix."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from os.path import expanduser, expandvars, normpath
from pathlib import Path
from typing import Any, NoReturn

from ackq.errors import PipelineConfigError

#: Maximum seconds between micro-batches: a day.
MAX_SECONDS = 86_400.0
#: A variable in a path, as shells write it.
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})")


class Section:
    """One table of the file. It records which of its keys have been read."""

    def __init__(self, where: str, name: str, values: Any, base: Path) -> None:
        self._where, self._name, self._base = where, name, base
        if not isinstance(values, Mapping):
            raise PipelineConfigError(
                f"{where}: {name} must be a section: write [{name}], then its keys", key=name
            )
        self._values = values
        self._known: list[str] = []

    def wrong(self, key: str, problem: str) -> NoReturn:
        """Raise an error for ``key``."""
        raise refused(self._where, self._name, key, problem)

    def missing(self, key: str, what: str = "") -> NoReturn:
        """Raise the error for a missing ``key``."""
        self.wrong(key, f"is required{': ' if what else ''}{what}")

    def end(self, elsewhere: Mapping[str, str] | None = None) -> None:
        """Reject keys that were not read, and suggest the nearest known key.

        Args:
            elsewhere: keys that belong elsewhere, and what to do. Defaults to none.
        """
        for key in self._values:
            if key not in self._known:
                hint = (elsewhere or {}).get(str(key)) or nearest(str(key), self._known)
                self.wrong(str(key), f"unknown key; {hint}")

    def section(self, key: str, *, required: bool = False) -> Section:
        """Return the section ``key``, or an empty one if it is missing."""
        if required and key not in self._values:
            self.missing(key, f"add a section [{key}]")
        name = f"{self._name}.{key}" if self._name else key
        return Section(self._where, name, self._get(key, {}), self._base)

    def text(self, key: str, default: str | None = None) -> str | None:
        """Return a non-empty string."""
        value = self._get(key, default)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            self.wrong(key, f"must be a non-empty string, not {value!r}")
        return value

    def names(self) -> list[str]:
        """Return the keys of the section, each of which is a section itself."""
        return [str(key) for key in self._values]

    def share(self, key: str) -> float | None:
        """Return a share above 0 and below 1."""
        value = self._get(key, None)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            self.wrong(key, f"must be a share between 0 and 1, such as 0.05, not {value!r}")
        return float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self._get(key, ())
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.wrong(key, f'must be a list of strings, such as ["{value}"], not {value!r}')
        if bad := [each for each in value if not isinstance(each, str) or not each.strip()]:
            self.wrong(key, f"must be a list of non-empty strings, but contains {bad[0]!r}")
        return tuple(value)

    def all_texts(self) -> dict[str, str]:
        """Return all keys of the section with their values, which must be strings."""
        return {key: self.text(key) or "" for key in self._values}

    def path(self, key: str) -> str | None:
        """Return a path or its URL. A relative path starts at the folder of the file.

        ``~`` at its start and variables such as ``$HOME`` are replaced, as in a shell.
        """
        value = self.text(key)
        if value is None:
            return None
        value = expandvars(expanduser(value))
        if unknown := _VARIABLE.search(value):
            self.wrong(key, f"{unknown[0]} is not set: set it, or write the path itself")
        if "://" in value or value.startswith(("file:", "dbfs:")):
            return value
        return str(self._base / value)

    def seconds(self, key: str, default: float) -> float:
        """Return a number of seconds."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(key, f"must be a number of seconds, not {value!r}")
        if not math.isfinite(value) or not 0 <= value <= MAX_SECONDS:
            self.wrong(key, f"must be 0 to {MAX_SECONDS:,.0f} seconds, not {value!r}")
        return float(value)

    def function(self, key: str) -> Any:
        """Return a function, or its location as text."""
        if callable(value := self._get(key, None)):
            return value
        text = self.text(key)
        if text is not None and not all(text.partition(":")):
            self.wrong(key, f"must be module:function, not {text!r}")
        return text

    def options(self, elsewhere: Mapping[str, str]) -> dict[str, str]:
        """Return the options of the section.

        Args:
            elsewhere: options that are rejected here, and what to use instead.
        """
        options = self.section("options")
        for key in options._values:
            if (instead := elsewhere.get(str(key).lower())) is not None:
                options.wrong(str(key), f"cannot be set here; use {instead}")
        return options.rest()

    def rest(self) -> dict[str, str]:
        """Return all keys as options of Spark: values as text, nested names joined by dots."""
        return {key: self._option(key, value) for key, value in _flat(self._values)}

    def one_of(self, keys: Collection[str], together: Collection[str] = ()) -> str:
        """Return the one of ``keys`` that is present. Those in ``together`` may be combined."""
        here = [key for key in keys if key in self._values]
        self._known += keys
        if not here:
            # If one is misspelt, that error is more helpful than that all are missing.
            self._reject_misspelt(keys)
            self.missing(" or ".join(keys))
        if len(here) > 1 and not set(here) <= set(together):
            self.wrong(here[1], f"cannot be combined with {here[0]}: keep one of them")
        return here[0]

    def at_most_one(self, *keys: str) -> None:
        """Reject more than one of ``keys``."""
        here = [key for key in keys if key in self._values]
        if len(here) > 1:
            self.wrong(here[1], f"cannot be combined with {here[0]}: keep one of them")

    def _reject_misspelt(self, keys: Collection[str]) -> None:
        for key in self._values:
            if get_close_matches(str(key), keys, 1):
                self.wrong(str(key), f"unknown key; {nearest(str(key), keys)}")

    def _option(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            self.wrong(key, f"must be a string, a number, true or false, not {value!r}")
        return str(value)

    def _get(self, key: str, default: Any) -> Any:
        self._known.append(key)
        return self._values.get(key, default)


def local_path(path: str) -> str | None:
    """Return a path of this machine without its scheme; None: it is elsewhere."""
    path = path.removeprefix("file://").removeprefix("file:")
    return None if "://" in path or path.startswith("dbfs:") else normpath(path)


def refused(where: str, section: str, key: str, problem: str) -> PipelineConfigError:
    """Return the error for a key of a section, or of the top level if ``section`` is empty."""
    shown = f"[{section}] " if section else ""
    return PipelineConfigError(
        f"{where}: {shown}{key}: {problem}", key=f"{section}.{key}" if section else key
    )


def _flat(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield keys and values. TOML turns a key such as ``spark.ui.enabled`` into nested tables."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def nearest(word: str, known: Collection[str]) -> str:
    """Return a hint: the ``known`` word that was probably meant, or all of them."""
    lowered = {each.lower(): each for each in known}
    if matches := get_close_matches(word.lower(), lowered, 1):
        return f"did you mean {lowered[matches[0]]}?"
    return f"known are {', '.join(dict.fromkeys(known))}" if known else "none are known"
