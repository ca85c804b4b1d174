"""``ackq push``."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, BinaryIO

import click
import orjson

from ackq.cli.options import examples, max_body_option, seconds_option
from ackq.cli.progress import progress
from ackq.cli.queues import on_queue_end, open_any
from ackq.config import QueueConfig
from ackq.core.ids import key_of_id
from ackq.core.io.outside import SYSTEM
from ackq.errors import AckqError, ConfigurationError, InvalidMessage
from ackq.escaping import printable
from ackq.queue.group_names import text_of_group
from ackq.queue.messages import Pushed
from ackq.queue.unique import id_of

#: Maximum lines and bytes that are checked and pushed in one call, all or none of them.
CHUNK, CHUNK_BYTES = 1000, 4 * 1024 * 1024


#: An object that begins with its id.
_ID_FIRST = re.compile(rb'\s*\{\s*"id"\s*:\s*(?:"(?:[^"\\]|\\.)*"|-?\d+(?![\d.eE]))')


class _Time(click.ParamType):  # type: ignore[type-arg]
    """A time in ISO 8601; without an offset, in local time."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        try:
            return datetime.fromisoformat(value).astimezone()
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2026-12-24T18:00", param, ctx)


TIME = _Time()


@click.command(
    epilog=examples(
        """ackq push jobs '{"task": "resize"}' '{"id": "a-7", "task": "mail"}'""",
        """ackq push jobs --id a-8 --dedup order-8 '{"task": "invoice"}'""",
        """ackq push jobs --front '{"task": "refund"}'""",
        """ackq push charges --group c-17 '{"task": "charge"}'""",
        """ackq push jobs --unique done --unique-by customer '{"customer": 17}'""",
        "ackq push jobs --file orders.ndjson --skip 1",
        "ackq push jobs --raw --delay 60 < orders.ndjson",
    )
)
@on_queue_end
@click.argument("json", nargs=-1)
@click.option("--file", type=click.File("rb"), help="Read NDJSON lines from FILE; - is stdin.")
@click.option("--raw", is_flag=True, help="Push arguments or lines unchanged, JSON or not.")
@seconds_option(
    "--delay",
    help="Time until they become ready.  [0]",
)
@click.option(
    "--at",
    type=TIME,
    metavar="TIME",
    help="When they become ready: 2026-12-24T18:00, in local time unless it has an offset.",
)
@click.option("--front", is_flag=True, help="Deliver them before all messages on the ready list.")
@click.option(
    "--dedup",
    metavar="KEY",
    help="For one argument: store it only if KEY was not pushed within the last hour.",
)
@click.option(
    "--unique",
    type=click.Choice(["done", "taken"]),
    help="Store no message while one with its id is in the queue: until it is done, or taken.",
)
@click.option(
    "--unique-by",
    multiple=True,
    metavar="FIELD",
    help="With --unique: make the id from this field; may be repeated.",
)
@seconds_option(
    "--unique-for",
    help="With --unique: seconds for which a ready message is taken to be in the queue, unless a"
    " consumer of ackq takes it.  [86400]",
)
@click.option(
    "--replace",
    is_flag=True,
    help="With --unique and --delay or --at: replace messages that are still delayed.",
)
@click.option(
    "--group",
    metavar="GROUP",
    help="For a queue with groups: write GROUP into the objects, next to their ids.",
)
@click.option("--id", "own_id", metavar="ID", help="For one argument without an id: its id.")
@click.option(
    "--time-field",
    metavar="FIELD",
    help="Add the time to each object that lacks FIELD, so that the ages of the messages"
    " are known.",
)
@click.option(
    "--skip",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Skip the first N lines, which were pushed before an error.  [0]",
)
@max_body_option("Push nothing longer: consumers would not deliver it.  [1048576]")
@click.option("--ids", is_flag=True, help="With lines: print the ids instead of the number.")
def push(
    queue: str,
    url: str | None,
    json: tuple[str, ...],
    file: BinaryIO | None,
    raw: bool,
    delay: float | None,
    at: datetime | None,
    front: bool,
    dedup: str | None,
    unique: Any,
    unique_by: tuple[str, ...],
    unique_for: float | None,
    replace: bool,
    group: str | None,
    own_id: str | None,
    time_field: str | None,
    skip: int,
    ids: bool,
    max_body: int | None,
) -> None:
    """Push JSON objects onto QUEUE: the arguments, or the lines of --file or stdin.

    Objects are not re-encoded; one without an id gets a new id, and with --time-field the time.
    For arguments, prints the ids (an empty line for a --raw message without one); for lines, prints
    the number pushed, or the ids with --ids. Blank lines are skipped.

    Lines are pushed 1,000 at a time, all or none. After an error, Ctrl-C or SIGTERM, the number
    pushed is printed; pass it to --skip to go on. If the reply was lost, the next 1,000 may already
    be in the queue; continuing would push them twice.
    """
    if json and (file or skip or ids):
        raise click.UsageError("give either JSON arguments or lines, with --file, --skip, --ids")
    if raw and time_field:
        raise click.UsageError("--raw pushes messages unchanged: leave out --time-field")
    if (dedup is not None or own_id is not None) and len(json) != 1:
        raise click.UsageError("--dedup and --id are for one argument")
    if unique is None and (unique_by or unique_for is not None or replace):
        raise click.UsageError("--unique-by, --unique-for and --replace need --unique")
    if own_id is not None:
        json = (_with_id(json[0], own_id),)
    if raw and group is not None:
        raise click.UsageError("--raw pushes messages unchanged: leave out --group")
    most = QueueConfig().max_body_bytes if max_body is None else max_body
    with open_any(url, queue, "push", time_field=time_field) as opened:
        grouped = None if group is None else (_field_of(opened.client), group)
        when: dict[str, Any] = {"delay": delay, "at": at, "front": front}
        if unique is not None:
            when |= {"unique": unique, "replace": replace}
            when |= {"unique_for": unique_for} if unique_for is not None else {}
        push_many = partial(opened.client.push_many, **when)
        if dedup is not None:
            ((body,), _, _) = next(_chunks(arguments(json), 0, raw, time_field, (), grouped, most))
            pushed_once = opened.client.push(body, **when, dedup=dedup)
            _print([pushed_once])
            if not pushed_once.stored:
                click.echo("ackq: not stored: the message with this id was pushed before", err=True)
            return
        if json:
            chunks = _chunks(arguments(json), 0, raw, time_field, unique_by, grouped, most)
            for chunk, _, _ in chunks:
                _print(_reported(push_many(chunk)))
            return
        source = file or sys.stdin.buffer
        advice = "go on with --skip {count}"
        pushed = 0
        with progress("lines pushed", _size(source), advice, skip) as on_step:
            chunks = _chunks(source, skip, raw, time_field, unique_by, grouped, most)
            for chunk, number, read in chunks:
                stored = _reported(push_many(chunk))
                on_step(number, read)
                pushed += len(stored)
                if ids:
                    _print(stored)
        if not ids:
            click.echo(f"{pushed:,} message{'s' * (pushed != 1)} pushed")


def _with_id(json: str, id: str) -> str:
    """Return an object with this id, which is not re-encoded."""
    body = json.encode(errors="surrogateescape")
    try:
        parsed = orjson.loads(body)
    except ValueError as error:
        raise NotPushed(f"--id is for a JSON object: {error}") from error
    if not isinstance(parsed, dict) or "id" in parsed:
        raise click.UsageError("--id is for a JSON object without an id")
    rest = json.lstrip()[1:]
    return f'{{"id":{orjson.dumps(id).decode()}{"," * bool(parsed)}{rest}'


def _field_of(queue: Any) -> str:
    """Return the member that names the group of a message.

    Raises:
        ConfigurationError: the queue has no groups.
    """
    if (groups := queue.config.groups) is None:
        raise ConfigurationError(
            f"{queue.name!r} has no groups yet: ackq groups {queue.name} --on field=NAME"
        )
    field: str = groups.field
    return field


def _with_group(body: bytes, parsed: dict[str, Any], field: str, group: str) -> bytes:
    """Return an object with a group next to its id, if the id comes first.

    Raises:
        ValueError: the object names another group.
    """
    if field in parsed:
        if text_of_group(parsed[field]) != group:
            raise ValueError(f"its {field!r} is another group: leave out --group")
        return body
    written = b'"%s":%s' % (field.encode(), orjson.dumps(group))
    if begin := _ID_FIRST.match(body):
        return body[: begin.end()] + b"," + written + body[begin.end() :]
    return b"{" + written + b"," + body.lstrip()[1:]


def _reported(pushed: list[str]) -> list[str]:
    """Report which messages a unique push did not store, and return the ids of the others."""
    stored = [id for id in pushed if not isinstance(id, Pushed) or id.stored]
    for id in pushed:
        if isinstance(id, Pushed) and not id.stored:
            click.echo(f"ackq: not stored: {printable(id)} is in the queue already", err=True)
    return stored


def _print(ids: Iterable[str]) -> None:
    shown = printable if sys.stdout.isatty() else str
    click.echo("".join(f"{shown(message_id)}\n" for message_id in ids), nl=False)


def _size(source: BinaryIO) -> int | None:
    """Return the size of a regular file in bytes, or None for a pipe."""
    try:
        status = os.fstat(source.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _chunks(
    lines: Iterable[bytes],
    skip: int,
    raw: bool,
    time_field: str | None,
    unique_by: Sequence[str],
    grouped: tuple[str, str] | None,
    most: int,
) -> Iterator[tuple[list[bytes], int, int]]:
    """Yield bodies of at most ``most`` bytes, the number of their last line, and the bytes read."""
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
            if not raw:
                body = _object(body, number, time_field, unique_by, grouped)
            if len(body) > most:
                raise NotPushed(
                    f"line or argument {number} is {len(body):,} bytes, over the limit of {most:,}:"
                    " store the content elsewhere and push a reference, or pass --max-body here and"
                    " to its consumers"
                )
            chunk.append(body)
            size += len(body)
    if chunk:
        yield chunk, number, read


def arguments(json: Iterable[str]) -> Iterator[bytes]:
    """Yield the arguments as the exact bytes that the shell passed."""
    return (text.encode(errors="surrogateescape") for text in json)


def objects(json: Iterable[str]) -> list[bytes]:
    """Return arguments as bodies with ids.

    Raises:
        NotPushed: an argument is not a valid message.
    """
    return [_object(body, number) for number, body in enumerate(arguments(json), 1)]


def _object(
    body: bytes,
    number: int,
    time_field: str | None = None,
    unique_by: Sequence[str] = (),
    grouped: tuple[str, str] | None = None,
) -> bytes:
    try:
        return completed(body, time_field, unique_by, grouped)
    except (ValueError, InvalidMessage) as error:
        raise NotPushed(f"line or argument {number}: {error}") from error


class NotPushed(AckqError):
    """A line is not a valid message. Its chunk was not pushed."""


def completed(
    body: bytes,
    time_field: str | None = None,
    unique_by: Sequence[str] = (),
    grouped: tuple[str, str] | None = None,
) -> bytes:
    """Return the JSON object with what it lacks: an id in front, its group, the time at the end.

    The object is not re-encoded, since that would change numbers of more than 64 bits.

    Args:
        body: the object.
        time_field: the member that holds the time; None: no time is added.
        unique_by: the fields of which the id is made; empty: it is random.
        grouped: the member that names the group, and the group; None: as the object has it.

    Raises:
        ValueError: the body is not a JSON object, or its id cannot be a key.
    """
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"this is not JSON ({error}); --raw pushes anything") from error
    if not isinstance(parsed, dict):
        raise ValueError("a message is a JSON object; --raw pushes anything")
    if "id" not in parsed:
        id = id_of(parsed, unique_by) if unique_by else secrets.token_urlsafe(12)
        rest = body.lstrip()[1:]
        body = b'{"id":"%s"%s%s' % (id.encode(), b"," * bool(parsed), rest)
    elif unique_by:
        raise ValueError("it has an id: leave out --unique-by")
    elif key_of_id(parsed["id"]) is None:
        raise ValueError(
            "the id must be a non-empty string of at most 512 bytes or an integer"
            " below 2**53; without an id, ackq draws one"
        )
    if grouped is not None:
        body = _with_group(body, parsed, *grouped)
    if time_field is None or time_field in parsed:
        return body
    return b'%s,"%s":"%s"}' % (body.rstrip()[:-1], time_field.encode(), SYSTEM.now().encode())
