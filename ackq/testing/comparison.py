"""Compares messages with the fields that a test expects, and says how they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from ackq.core.inspection_results import PeekedMessage

#: How many messages a failed assertion shows.
SHOWN = 10
#: Longest body that it shows, in characters.
MAX_SHOWN = 200


def selected(
    messages: Sequence[PeekedMessage], fields: Mapping[str, Any], count: int | None
) -> list[PeekedMessage]:
    """Return the messages with these fields.

    Raises:
        AssertionError: there are none, or not ``count``. It shows what is there and how that
            differs.
    """
    matching = [message for message in messages if not any(_differences(message, fields))]
    if len(matching) == count or (count is None and matching):
        return matching
    expected = "at least one message" if count is None else _messages(count)
    lines = [f"expected {expected} with {dict(fields)!r}, found {len(matching)}"]
    if not messages:
        lines.append("The queue is empty.")
    elif matching:
        lines += ["These have the fields:", *map(_shown, matching[:SHOWN])]
    else:
        # Those that differ in the fewest fields come first: one of them is probably meant.
        compared = [(list(_differences(message, fields)), message) for message in messages]
        compared.sort(key=lambda one: len(one[0]))
        lines.append(f"The queue holds {_messages(len(messages))}:")
        for differences, message in compared[:SHOWN]:
            lines += [_shown(message), *(f"      {each}" for each in differences)]
    hidden = len(matching or messages) - SHOWN
    if hidden > 0:
        lines.append(f"  and {hidden} more")
    raise AssertionError("\n".join(lines))


def _differences(message: PeekedMessage, fields: Mapping[str, Any]) -> Iterator[str]:
    try:
        body = orjson.loads(message.body)
    except orjson.JSONDecodeError:
        body = None
    if isinstance(body, dict):
        yield from _unequal(body, fields, "")
    else:
        yield "the body is not a JSON object"


def _unequal(actual: Mapping[str, Any], fields: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in fields.items():
        where = f"{path}{name}"
        if name not in actual:
            yield f"{where} is missing"
        elif isinstance(value, Mapping) and isinstance(actual[name], Mapping):
            yield from _unequal(actual[name], value, f"{where}.")
        elif actual[name] != value or isinstance(actual[name], bool) != isinstance(value, bool):
            yield f"{where} is {actual[name]!r}, not {value!r}"


def _messages(count: int) -> str:
    return f"{count} message" if count == 1 else f"{count} messages"


def _shown(message: PeekedMessage) -> str:
    body = message.body.decode(errors="backslashreplace")
    return f"  {body if len(body) <= MAX_SHOWN else body[:MAX_SHOWN] + '…'}"
