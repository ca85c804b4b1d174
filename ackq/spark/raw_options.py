"""Read the options that a user passed; errors name the option."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ackq.errors import ConfigurationError

#: The largest integer that an option accepts.
MAX_INTEGER = 2**53 - 1
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d)", re.ASCII)


class RawOptions:
    """The options of one read or write.

    Spark passes them in lower case; errors use the documented spelling.
    """

    def __init__(self, options: Mapping[str, str], known: Iterable[str], purpose: str) -> None:
        """Reject unknown options.

        Args:
            options: the options as Spark passes them.
            known: the documented names.
            purpose: what the options are for, in errors: "a stream from a queue".

        Raises:
            ConfigurationError: an option is unknown; the error suggests a known one.
        """
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in known}
        for name in options:
            if name.lower() not in names:
                near = difflib.get_close_matches(name.lower(), names, 1)
                meant = f"did you mean {names[near[0]]!r}? " if near else ""
                raise ConfigurationError(
                    f"unknown option {name!r} for {purpose}: {meant}"
                    f"Known are {', '.join(names.values())}"
                )

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """Return an option's text, or None if it was not passed.

        Raises:
            ConfigurationError: the text is empty.
        """
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise refused(name, "a non-empty string", value)
        return value

    def character(self, name: str, default: str) -> str:
        """Return a single character, which may be a space or a tab.

        Raises:
            ConfigurationError: the value is longer or empty.
        """
        value = self._values.get(name.lower(), default)
        if len(value) != 1:
            raise refused(name, "a single character", value)
        return value

    def integer(self, name: str, default: int, low: int, high: int = MAX_INTEGER) -> int:
        """Return a whole number.

        Raises:
            ConfigurationError: the value is not a whole number, or is out of range.
        """
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise refused(name, f"an integer from {low} to {high}", value) from None
        if not low <= number <= high:
            raise refused(name, f"an integer from {low} to {high}", value)
        return number

    def duration(self, name: str, default: float) -> float:
        """Return a duration in seconds, written as Kafka's connector does: ``500ms``, ``15m``.

        Raises:
            ConfigurationError: the value is not a duration.
        """
        value = self.text(name)
        if value is None:
            return default
        matched = _DURATION.fullmatch(value.strip().lower())
        if matched is None:
            raise refused(name, "a number with one of the units ms, s, m, h and d", value)
        return int(matched[1]) * _UNITS[matched[2]]

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean.

        Raises:
            ConfigurationError: the value is neither true nor false.
        """
        return self.choice(name, str(default).lower(), ("true", "false")) == "true"

    def choice(self, name: str, default: str, choices: Iterable[str]) -> str:
        """Return one of ``choices``, ignoring case.

        Raises:
            ConfigurationError: the value is not among them.
        """
        value = self.text(name)
        by_lower = {choice.lower(): choice for choice in choices}
        chosen = by_lower.get((default if value is None else value).strip().lower())
        if chosen is None:
            raise refused(name, " or ".join(map(repr, by_lower.values())), value)
        return chosen


def refused(name: str, wanted: str, value: Any) -> ConfigurationError:
    """Return the error for an invalid value."""
    return ConfigurationError(f"option {name!r} must be {wanted}, not {value!r}")
