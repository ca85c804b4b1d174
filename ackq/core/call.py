"""From what Redis or a socket reports to what ackq does about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from redis.exceptions import (
    ResponseError,
)

from ackq.core.effects import Request, Steps
from ackq.errors import KeyTypeError


def explain_types(
    what: str, expected: Mapping[bytes, str], error: ResponseError
) -> Steps[NoReturn]:
    """Find which key has the wrong type, and say so.

    Args:
        what: names the queue in the error.
        expected: the keys that were passed, and their types.
        error: what Redis replied.

    Raises:
        KeyTypeError: for a WRONGTYPE reply.
        ResponseError: ``error`` itself, if it is another one.
    """
    if "WRONGTYPE" not in str(error):
        raise error
    wrong = []
    for key, kind in expected.items():
        found: bytes = yield Request((b"TYPE", key), resend=True)
        if found.decode() not in (kind, "none"):
            wrong.append(f"{key.decode()!r} is a {found.decode()}, not a {kind}")
    raise KeyTypeError(
        f"{what}: {'; '.join(wrong) or error}. Nothing was changed: rename that key or the queue"
    ) from error
