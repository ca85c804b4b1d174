"""``ackq push``."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import click
import orjson

from ackq.cli.connection import examples, on_queue, open_queue, seconds
from ackq.cli.progress import progress
from ackq.core.ids import key_of_id
from ackq.errors import AckqError
from ackq.escaping import printable

#: Lines, and bytes of them, that are checked and pushed in one call: all of them or none.
CHUNK, CHUNK_BYTES = 1000, 4 * 1024 * 1024


@click.command(
    epilog=examples(
        """ackq push jobs '{"task": "resize"}' '{"id": "a-7", "task": "mail"}'""",
        "ackq push jobs --file orders.ndjson --skip 1",
        "ackq push jobs --raw --delay 60 < orders.ndjson",
    )
)
@on_queue
@click.argument("json", nargs=-1)
@click.option("--file", type=click.File("rb"), help="Read NDJSON lines from FILE; - is stdin.")
@click.option("--raw", is_flag=True, help="Push arguments or lines as they are, JSON or not.")
@click.option("--delay", type=float, callback=seconds, metavar="SECONDS",
              help="When they become ready.  [at once]")  # fmt: skip
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N",
              help="Pass over the first N lines: those that went in before an error.  [0]"
              )  # fmt: skip
@click.option("--ids", is_flag=True, help="Print the ids of lines, not how many there were.")
def push(
    queue: str, url: str | None, json: tuple[str, ...], file: BinaryIO | None, raw: bool,
    delay: float | None, skip: int, ids: bool,
) -> None:  # fmt: skip
    """Push JSON objects onto QUEUE: the arguments, else the lines of --file or stdin.

    An object keeps every byte that it has; one without an id is given one. The ids of arguments
    are printed, an empty line for none (--raw); of lines, how many were pushed, unless --ids asks
    for the ids. Blank lines are passed over.

    Lines are pushed by 1,000, all of them or none: after an error, Ctrl-C or SIGTERM it says how
    many went in, for --skip. If the reply was lost, the next 1,000 may be in as well, and come
    twice.
    """
    if json and (file or skip or ids):
        raise click.UsageError("give either JSON arguments or lines, with --file, --skip, --ids")
    with open_queue(url, queue) as opened:
        if json:
            for chunk, _, _ in _chunks(arguments(json), 0, raw):
                _print(opened.push_many(chunk, delay=delay))
            return
        source = file or sys.stdin.buffer
        advice = "go on with --skip {count}"
        pushed = 0
        with progress("lines pushed", _size(source), advice, skip) as on_step:
            for chunk, number, read in _chunks(source, skip, raw):
                stored = opened.push_many(chunk, delay=delay)
                on_step(number, read)
                pushed += len(stored)
                if ids:
                    _print(stored)
        if not ids:
            click.echo(f"{pushed:,} message{'s' * (pushed != 1)} pushed")


def _print(ids: Iterable[str]) -> None:
    shown = printable if sys.stdout.isatty() else str
    click.echo("".join(f"{shown(each)}\n" for each in ids), nl=False)


def _size(source: BinaryIO) -> int | None:
    """Return how many bytes there are to read; None for a pipe."""
    try:
        found = os.fstat(source.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _chunks(lines: Iterable[bytes], skip: int, raw: bool) -> Iterator[tuple[list[bytes], int, int]]:
    """Yield bodies, the number of the last line that they reach to, and bytes read so far."""
    chunk: list[bytes] = []
    size = read = number = 0
    for line in lines:
        body = line.rstrip(b"\r\n")
        if chunk and (len(chunk) == CHUNK or size + len(body) > CHUNK_BYTES):
            yield chunk, number, read
            chunk, size = [], 0
        number += 1
        read += len(line)
        if number > skip and (raw or body.strip()):
            chunk.append(body if raw else _object(body, number))
            size += len(body)
    if chunk:
        yield chunk, number, read


def arguments(json: Iterable[str]) -> Iterator[bytes]:
    """Yield arguments byte for byte as the shell gave them."""
    return (each.encode(errors="surrogateescape") for each in json)


def objects(json: Iterable[str]) -> list[bytes]:
    """Return arguments as messages.

    Raises:
        NotPushed: one is none.
    """
    return [_object(body, number) for number, body in enumerate(arguments(json), 1)]


def _object(body: bytes, number: int) -> bytes:
    try:
        return with_id(body)
    except ValueError as error:
        raise NotPushed(f"line or argument {number}: {error}") from error


class NotPushed(AckqError):
    """A line is no message. The chunk that it is in was not pushed."""


def with_id(body: bytes) -> bytes:
    """Return the JSON object with an id, its own or a new one in front; else byte for byte.

    It is not encoded anew, which would change numbers of more than 64 bits.

    Raises:
        ValueError: not a JSON object, or its id can be no key.
    """
    parsed = orjson.loads(body)
    if not isinstance(parsed, dict):
        raise ValueError("a message is a JSON object; --raw pushes anything")
    if "id" not in parsed:
        rest = body.lstrip()[1:]
        return b'{"id":"%s"%s%s' % (secrets.token_urlsafe(12).encode(), b"," * bool(parsed), rest)
    if key_of_id(parsed["id"]) is None:
        raise ValueError("the id must be a non-empty string of at most 512 bytes or an integer"
                         " below 2**53; without one it is given one")  # fmt: skip
    return body
