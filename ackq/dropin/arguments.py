"""The arguments of list commands, read as redis-py and Redis read them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

from redis._parsers import Encoder
from redis.exceptions import DataError, ResponseError

#: What redis-py takes as the name of a key.
Key: TypeAlias = str | bytes | bytearray | memoryview | int | float
_TEXT = (str, bytes, bytearray, memoryview)
#: What may stand for a number. No bool: redis-py refuses it.
_NUMBERS = (int, float, str, bytes)


def name_of(key: Key, encoder: Encoder) -> str:
    """Return the name of a list as text. Bytes that are not UTF-8 become surrogate escapes.

    Raises:
        DataError: it is not text, bytes or a number.
    """
    if type(key) is str and key.isascii():
        return key
    if isinstance(key, bytearray):
        key = bytes(key)
    return bytes(encoder.encode(key)).decode("utf-8", "surrogateescape")


def names_of(keys: Key | Iterable[Key], encoder: Encoder) -> list[str]:
    """Return the names of one list or several, each once, in their order.

    Raises:
        ResponseError: there is none.
        DataError: one is not text, bytes or a number.
    """
    if type(keys) is str and keys.isascii():
        return [keys]
    several = keys if isinstance(keys, Iterable) and not isinstance(keys, _TEXT) else (keys,)
    names = list(dict.fromkeys(name_of(key, encoder) for key in several))
    if not names:
        raise ResponseError("wrong number of arguments for a blocking pop: pass a key")
    return names


def count_of(count: Any) -> int:
    """Return the number of messages to pop, from 0.

    Raises:
        ResponseError: it is negative, or not a whole number.
        DataError: it is not text, bytes or a number.
    """
    text = _number(count)
    try:
        number = -1 if isinstance(text, float) else int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 2**63:
        raise ResponseError("value is out of range, must be positive")
    return number


def timeout_of(timeout: Any) -> float:
    """Return the seconds to wait: infinity for 0 and None.

    Raises:
        ResponseError: it is negative, or not a number.
        DataError: it is not text, bytes or a number.
    """
    if timeout is None:
        return math.inf
    try:
        seconds = float(_number(timeout))
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise ResponseError("timeout is not a float or out of range")
    if seconds < 0 or seconds == math.inf:
        raise ResponseError("timeout is negative" if seconds < 0 else "timeout is out of range")
    return seconds or math.inf


def _number(value: Any) -> Any:
    if type(value) not in _NUMBERS:
        raise DataError(
            f"Invalid input of type: {type(value).__name__!r}. Convert to a bytes, string, int or"
            " float first."
        )
    return value
