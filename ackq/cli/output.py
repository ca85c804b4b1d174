"""Prints JSON, and the bodies and ids of messages."""

from __future__ import annotations

import sys
from typing import Any

import click

from ackq.escaping import json_line, printable


def print_json(value: Any) -> None:
    """Print a line of JSON."""
    click.echo(json_line(value))


def print_count(number: int, what: str, done: str) -> None:
    """Print a count: in words in a terminal, as a bare number elsewhere.

    Args:
        number: how many.
        what: one of them, such as "message".
        done: what was done with them, such as "moved".
    """
    if sys.stdout.isatty():
        click.echo(f"{number:,} {what}{'s' * (number != 1)} {done}")
    else:
        click.echo(number)


def print_body(body: bytes | str) -> None:
    """Print a body on one line: escaped in a terminal, byte for byte elsewhere."""
    click.echo(printable(body) if sys.stdout.isatty() else body)


def body_fields(body: bytes) -> dict[str, str]:
    """Return a body for JSON output: as text, or as Base64 if it is not UTF-8."""
    return _text_field("body", body)


def id_fields(id: str, name: str = "id") -> dict[str, str]:
    """Return the id or key of a message for JSON output, like `body_fields`."""
    return _text_field(name, id.encode(errors="surrogateescape"))


def _text_field(name: str, value: bytes) -> dict[str, str]:
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {f"{name}_base64": b64encode(value).decode()}
