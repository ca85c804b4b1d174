"""The one place that turns a reply into a value or an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from redis.exceptions import NoPermissionError, ResponseError

from ackq.core.effects import Operation, Request
from ackq.errors import KeyTypeError


class Spec(Protocol):
    """The queue or topic of an operation. It translates error replies about its keys."""

    def raise_for_reply(self, error: ResponseError, *context: Any) -> Operation[NoReturn]:
        """Raise the error that the reply ``error`` stands for."""


def call(spec: Spec, request: Request, *context: Any) -> Operation[Any]:
    """Send ``request`` and return the reply; let ``spec`` translate an error reply.

    Raises:
        KeyTypeError: a key holds another type; nothing was changed.
    """
    try:
        return (yield request)
    except ResponseError as error:
        yield from spec.raise_for_reply(error, *context)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a call that concerns several queues: their owner, and their types."""

    owner: str
    types: Mapping[bytes, str]

    def raise_for_reply(self, error: ResponseError) -> Operation[NoReturn]:
        """Raise `KeyTypeError` if a key has another type, else ``error`` itself."""
        return raise_for_type(self.owner, self.types, error)


def raise_for_type(
    what: str, expected: Mapping[bytes, str], error: ResponseError
) -> Operation[NoReturn]:
    """Raise an error that names the key of the wrong type, if the user may look at it.

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
        try:
            actual: bytes = yield Request((b"TYPE", key), resend=True)
        except NoPermissionError:
            continue
        if actual.decode() not in (kind, "none"):
            wrong.append(f"{key.decode()!r} is a {actual.decode()}, not a {kind}")
    raise KeyTypeError(
        f"{what}: {'; '.join(wrong) or error}. Nothing was changed: rename that key or the queue"
    ) from error
