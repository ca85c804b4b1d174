"""JSON as the scripts decode it: Redis's decoder accepts more than JSON."""

from __future__ import annotations

import math
import re
from typing import Any

import orjson

#: Texts, in which there may be control characters; numbers as ``strtod`` reads them; and what
#: follows a NUL, which ends the body. Each alternative matches without going back.
_TOKEN = re.compile(
    r'"[^"\\\0]*(?:\\[^\0-\x1f][^"\\\0]*)*"?'
    r"|[-+]?(?:0x(?:[\da-f]+\.?[\da-f]*|\.[\da-f]+)(?:p[-+]?\d+)?"
    r"|\d+\.?\d*(?:e[-+]?\d+)?|inf(?:inity)?|nan(?:\(\w*\))?)"
    r"|[-+]\.\d+(?:e[-+]?\d+)?"
    r"|\0.*",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_CONTROL = re.compile(r"[\x01-\x1f]")


def loads(body: bytes) -> Any:
    """Return what the scripts decode, with numbers as floats, and None for infinity and NaN.

    Raises:
        ValueError: they do not decode it.
    """
    return orjson.loads(_TOKEN.sub(_strictly, body.decode(errors="replace")))


def _strictly(token: re.Match[str]) -> str:
    """Return a token as JSON. The space keeps numbers apart that follow each other."""
    text = token[0]
    if text[0] == '"':
        return _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", text)
    if text[0] == "\0":
        return ""
    number = _number(text.lower())
    return f" {number!r}" if math.isfinite(number) else " null"


def _number(text: str) -> float:
    if "n" in text:
        return math.nan  # or infinity
    try:
        return float.fromhex(text) if "x" in text else float(text)
    except OverflowError:
        return math.inf
