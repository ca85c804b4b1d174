"""Notes of failures, as long as the settings and the errors of handlers allow."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from ackq.config import RecordErrors
from ackq.core.failure import MAX_STORED, capture
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts

#: The receive count with five failures before it.
RECEIVES = 6


def _raised(letter: str, detail: RecordErrors) -> bytes:
    """Return what is stored about an error whose text has only this letter."""
    try:
        raise ValueError(10_000 * letter)
    except ValueError as error:
        return capture(error, detail)


#: A failure, by what it is made of.
FAILURES = {
    "tracebacks": _raised("x", "traceback"),
    "tracebacks in Cyrillic": _raised("\u0436", "traceback"),
    "tracebacks of control characters": _raised("\x01", "traceback"),
    "texts": _raised("x", "text"),
    "texts of control characters": _raised("\x01", "text"),
    "errors of 8 KiB": b'{"text":"%s"}' % (b"x" * (MAX_STORED - 11)),
}


class PrepareFailed(Protocol):
    """Prepares a scene whose messages failed in the same way."""

    def __call__(self, scene: Scene, failure: bytes) -> Act: ...


def with_failures(facts: Facts, shape: str) -> Callable[[PrepareFailed], PrepareFailed]:
    """Register a case for each kind of failure; ``shape`` says what happens to the messages."""

    def register(prepare: PrepareFailed) -> PrepareFailed:
        for kind, failure in FAILURES.items():
            facts.worst(f"{shape}, with five {kind}")(partial(prepare, failure=failure))
        return prepare

    return register


def note_failures(scene: Scene, errors: bytes, receives: bytes, count: int, failure: bytes) -> None:
    """Note five failures for each of the first messages with bodies of 100 bytes."""
    line = f"""
      local lines = string.rep('\\n1:1700000000000000:' .. [==[{failure.decode()}]==], 5)
      local ends = redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
      redis.call('HSET', KEYS[1], id, #body .. ':' .. ends .. lines)
      redis.call('HSET', KEYS[2], id, {RECEIVES})"""
    scene.fill(line, (errors, receives), count)


def dead_with_failures(scene: Scene, dead: bytes, count: int, failure: bytes) -> None:
    """Make dead letters with five failures each."""
    line = f"""
      local lines = string.rep('1:1700000000000000:' .. [==[{failure.decode()}]==] .. '\\n', 5)
      redis.call('XADD', KEYS[1], '*', 'key', id, 'body', body, 'reason', 'max receives',
        'count', {RECEIVES}, 'time', 1, 'errors', string.sub(lines, 1, -2))"""
    scene.fill(line, (dead,), count)
