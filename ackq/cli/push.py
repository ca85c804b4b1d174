"""``ackq push``."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO

import click
import orjson

from ackq.cli.connection import on_queue, open_queue
from ackq.errors import AckqError
from ackq.message import key_of_id

#: Lines that are read, checked and pushed at a time.
CHUNK = 1000


@click.command()
@on_queue
@click.argument("json", nargs=-1)
@click.option("--file", type=click.File("rb"), help="Read NDJSON lines from FILE; - is stdin.")
@click.option("--raw", is_flag=True, help="Push arguments or lines as they are, JSON or not.")
def push(
    queue: str, url: str | None, json: tuple[str, ...], file: BinaryIO | None, raw: bool
) -> None:
    """Push JSON objects onto QUEUE and print their ids, an empty line for none (--raw).

    From the arguments, else line by line from --file or stdin; blank lines are passed over. An
    object keeps every byte that it has; one without an id is given one. Lines are pushed by
    1,000: a bad one stops the command, and the chunks before it stay pushed.
    """
    if json and file:
        raise click.UsageError("give either JSON arguments or --file")
    bodies: Iterable[bytes] = (each.encode(errors="surrogateescape") for each in json)
    if not json:
        source = file or sys.stdin.buffer
        bodies = (line.rstrip(b"\r\n") for line in source)
    prepared = bodies if raw else _objects(bodies)
    with open_queue(url, queue) as opened:
        while chunk := list(islice(prepared, CHUNK)):
            for id in opened.push_many(chunk):
                click.echo(id)


def _objects(bodies: Iterable[bytes]) -> Iterator[bytes]:
    for number, body in enumerate(bodies, 1):
        if body.strip():
            try:
                yield with_id(body)
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
