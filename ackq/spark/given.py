"""Options as a user gave them, read by name, so that a mistake is refused by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from ackq.errors import ConfigurationError

#: The largest integer that an option may be.
LARGEST = 2**53 - 1


class RawOptions:
    """The options of one read or write.

    Spark hands them over in lower case; errors name them as the documentation does.
    """

    def __init__(self, options: Mapping[str, str], known: Iterable[str], what: str) -> None:
        """Refuse what is not known.

        Args:
            options: as Spark passes them.
            known: the names as documented.
            what: what is being done, for errors: "a stream from a queue".

        Raises:
            ConfigurationError: names the option and the nearest known one.
        """
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in known}
        for name in self._values:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                meant = f"did you mean {names[near[0]]!r}? " if near else ""
                raise ConfigurationError(
                    f"unknown option {name!r} for {what}: {meant}"
                    f"Known are {', '.join(names.values())}"
                )

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """Return an option's text, None where it was not given.

        Raises:
            ConfigurationError: it is empty.
        """
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise refused(name, "a text that is not empty", value)
        return value

    def integer(self, name: str, default: int, low: int, high: int = LARGEST) -> int:
        """Return a whole number.

        Raises:
            ConfigurationError: not one, or out of range.
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

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean.

        Raises:
            ConfigurationError: neither true nor false.
        """
        return self.choice(name, str(default).lower(), ("true", "false")) == "true"

    def choice(self, name: str, default: str, choices: Iterable[str]) -> str:
        """Return one of ``choices``, whose case does not matter.

        Raises:
            ConfigurationError: it is none of them.
        """
        value = self.text(name)
        by_lower = {choice.lower(): choice for choice in choices}
        found = by_lower.get((default if value is None else value).strip().lower())
        if found is None:
            raise refused(name, " or ".join(map(repr, by_lower.values())), value)
        return found


def refused(name: str, wanted: str, value: Any) -> ConfigurationError:
    """Return the error for a bad value."""
    return ConfigurationError(f"option {name!r} is {wanted}, not {value!r}")
