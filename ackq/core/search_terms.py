"""What to search the bodies of messages for, and how many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ackq.config import check_integer
from ackq.errors import ConfigurationError

#: Default for how many messages of each place are looked through.
WITHIN = 20_000
#: Most fields of a search, and the longest text of one, in bytes.
MAX_FIELDS, MAX_TEXT = 4, 4096

#: Called with the number of messages that were looked at since the last call.
OnProgress = Callable[[int], None]


def no_progress(count: int) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields that the JSON of a body has if it matches."""

    where: Mapping[str, Any]
    #: Texts that stand in such a body, unless its JSON writes them with escapes.
    texts: Sequence[bytes]

    @classmethod
    def of(cls, where: Mapping[str, Any], limit: int) -> Fields:
        """Check what is searched for, and how many matches are wanted.

        Raises:
            ConfigurationError: no or too many fields, one that cannot be searched for, or the
                limit is out of range.
        """
        if not isinstance(where, Mapping) or not 1 <= len(where) <= MAX_FIELDS:
            raise ConfigurationError(
                f'where names 1 to {MAX_FIELDS} fields, as {{"customer": 17}}, not {where!r}'
            )
        check_integer(limit, "limit", 1, 2**53)
        return cls(where, [text for each in where.items() for text in _texts_of(*each)])

    def match(self, body: bytes) -> bool:
        """Return whether a body has them."""
        try:
            fields = orjson.loads(body)
        except ValueError:
            return False
        return all(_is_value(fields, name, value) for name, value in self.where.items())


def fields_of(conditions: Iterable[str]) -> dict[str, Any]:
    """Return the fields and values of conditions: FIELD=VALUE, each value as JSON or as text.

    Raises:
        ConfigurationError: a text is not a condition, or two are about the same field.
    """
    fields: dict[str, Any] = {}
    for text in conditions:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ConfigurationError(f"{text!r} is not FIELD=VALUE")
        if name in fields:
            raise ConfigurationError(f"{name!r} is given twice")
        try:
            fields[name] = orjson.loads(value)
        except ValueError:
            fields[name] = value
    return fields


def check_within(within: int | None) -> None:
    """Raise an error for a number of messages that cannot be looked through.

    Raises:
        ConfigurationError: it is out of range.
    """
    if within is not None:
        check_integer(within, "within", 1, 2**53 - 1)


def _texts_of(name: str, value: Any) -> list[bytes]:
    """Return what the JSON of a body contains if it has this field."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"where: a field is named by text, not by {name!r}")
    if not isinstance(value, str | int | float | None):
        raise ConfigurationError(
            f"where: {name!r} is compared with text, a number, a bool or None, not with {value!r}"
        )
    try:
        texts = [orjson.dumps(name.rpartition(".")[2])[1:-1]]
        if isinstance(value, str):
            texts.append(orjson.dumps(value)[1:-1])
        # Numbers like 1.5 and 2**60 can be written in several ways.
        elif value is None or (isinstance(value, int) and abs(value) < 2**53):
            texts.append(orjson.dumps(value))
    except TypeError as e:
        raise ConfigurationError(f"where: {name!r} or its value is not valid Unicode") from e
    if any(len(text) > MAX_TEXT for text in texts):
        raise ConfigurationError(f"where: {name!r} or its value is longer than {MAX_TEXT} bytes")
    return [text for text in texts if text]


def _is_value(fields: Any, name: str, value: Any) -> bool:
    """Return whether a decoded body has this value in a field, or in one inside of others."""
    if isinstance(fields, dict) and name in fields:
        return isinstance(fields[name], bool) == isinstance(value, bool) and fields[name] == value
    outer, dot, rest = name.partition(".")
    return bool(dot) and isinstance(fields, dict) and _is_value(fields.get(outer), rest, value)
