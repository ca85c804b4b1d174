"""Make untrusted text safe for a terminal, a log or a line of JSON.

Messages are untrusted data. On a terminal, control characters can move the cursor, set the
clipboard or change the window title. A line feed can forge a log line, and bidirectional controls
can change how a text reads. Bodies, ids, reasons, and the names of queues and consumers therefore
pass through `printable` before they reach a terminal or a log, and through `json_line` before they
are printed as JSON.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import orjson


def printable(value: object) -> str:
    """Return a value as one line of text that contains only visible characters and spaces.

    Control characters (C0, C1, DEL), line breaks, bidirectional controls, other invisible
    characters, and bytes that are not UTF-8 become Python escapes, such as ``\\x1b`` or
    ``\\u202e``. None becomes ``-``.
    """
    if value is None:
        return "-"
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    if text.isprintable():
        return text
    return "".join(character if _is_shown(character) else _escaped(character) for character in text)


def json_line(value: Any) -> bytes:
    """Return a value as one line of JSON, without the line end, that is safe on any terminal.

    Characters that `printable` would escape become ``\\uXXXX``, so a parser reads the same text.
    """
    encoded = orjson.dumps(value, default=str)
    text = encoded.decode()
    if text.isprintable():
        return encoded
    return _NOT_PRINTABLE_ASCII.sub(_json_escaped, text).encode()


def _is_shown(character: str) -> bool:
    # isprintable() accepts only the ASCII space, but other spaces, such as no-break, are text too.
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


#: DEL is the only ASCII control character that JSON, and so orjson, does not escape.
_NOT_PRINTABLE_ASCII = re.compile(r"[^ -~]")


def _json_escaped(matched: re.Match[str]) -> str:
    character = matched[0]
    if _is_shown(character):
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
