"""Shared by the commands: options, opening the queue, and output."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

import click
from click.core import ParameterSource
from redis.exceptions import NoPermissionError

from ackq.config import PopFrom
from ackq.errors import ConfigurationError
from ackq.escaping import json_line, printable
from ackq.queue.client import Queue
from ackq.queue.pop_from import recorded

if TYPE_CHECKING:
    from ackq.sharded.client import ShardedQueue

F = TypeVar("F", bound=Callable[..., Any])

#: Longest body in bytes. High, so that the command line dead-letters no message for its size.
MAX_BODY_BYTES = 512 * 1024 * 1024
#: Characters of a body that a table shows.
SHOWN = 200

queue_argument = click.argument("queue")
#: Key of the context's meta that holds the URL read from --url-file.
_URL_FROM_FILE = "ackq.url"
number_option = click.option(
    "-n", "--number", type=click.IntRange(1), default=1, help="Maximum number of messages.  [1]"
)
#: Key of the context's meta that holds the value of --pop-from.
_POP_FROM = "ackq.pop_from"
#: Help text of ``--wait``.
WAIT_HELP = "Wait this long for the first message; inf: forever.  [do not wait]"
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def url_option(command: F) -> F:
    """Add the options --url and --url-file, which set the same parameter."""
    url = click.option(
        "--url",
        envvar="ACKQ_REDIS_URL",
        callback=_url,
        help="URL of Redis: redis://host:6379/0, rediss://..., unix:///path."
        "  [env: ACKQ_REDIS_URL]",
    )
    url_file = click.option(
        "--url-file",
        type=click.Path(dir_okay=False, allow_dash=True),
        is_eager=True,
        expose_value=False,
        callback=_read_url,
        metavar="FILE",
        help="Read the URL from FILE (-: stdin), since ps shows a password in --url.",
    )
    return url(url_file(command))


def _read_url(ctx: click.Context, parameter: click.Parameter, file: str | None) -> None:
    if file is None:
        return
    try:
        with click.open_file(file) as opened:
            url = opened.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"cannot be read: {type(error).__name__}") from None
    if not url or len(url.split()) > 1:
        raise click.BadParameter("must hold one URL and nothing else")
    ctx.meta[_URL_FROM_FILE] = url


def _url(ctx: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    from_file: str | None = ctx.meta.get(_URL_FROM_FILE)
    if from_file is None:
        return url
    if ctx.get_parameter_source("url") == ParameterSource.COMMANDLINE:
        raise click.UsageError("give --url or --url-file, not both")
    return from_file


def _note_end(ctx: click.Context, parameter: click.Parameter, end: PopFrom | None) -> None:
    ctx.meta[_POP_FROM] = end


pop_from_option = click.option(
    "--pop-from",
    type=click.Choice(["right", "left"]),
    expose_value=False,
    callback=_note_end,
    help="End of QUEUE's list that is popped: left if producers use RPUSH."
    "  [as recorded, or right]",
)


time_field_option = click.option(
    "--time-field",
    metavar="FIELD",
    help="Field of the body with the time at which a message was created; besides the time of"
    " CloudEvents.",
)


def on_queue(command: F) -> F:
    """Add the argument QUEUE and the URL options."""
    return queue_argument(url_option(command))


def on_queue_end(command: F) -> F:
    """Add the argument QUEUE, the URL options and --pop-from."""
    return on_queue(pop_from_option(command))


def examples(*commands: str) -> str:
    """Return the Examples section of a command's help.

    A test runs the examples in order, on a queue ``jobs`` with messages in every state.
    """
    return "\n".join(["\b", "Examples:", *(f"  {each}" for each in commands)])


def open_queue(
    url: str | None, name: str, *, pop_from: PopFrom | None = None, **settings: Any
) -> Queue:
    """Return the queue as a context manager. Without a URL, use the embedded server.

    ``pop_from`` defaults to --pop-from, then to what is recorded.

    Raises:
        ConfigurationError: it is a sharded queue, for which there is no such command.
    """
    if _is_sharded(url, name):
        raise ConfigurationError(
            f"{name!r} is a sharded queue: use ackq sharded, or name a shard, as ackq sharded"
            f" shards {name} lists them"
        )
    end = pop_from or end_of(url, name)
    return Queue.from_url(url, name, max_body_bytes=MAX_BODY_BYTES, pop_from=end, **settings)


def open_any(
    url: str | None,
    name: str,
    *,
    end: Callable[[str | None, str], PopFrom] | None = None,
    **settings: Any,
) -> Queue | ShardedQueue:
    """Return the queue, sharded or not, like `open_queue`.

    Args:
        url: of the server.
        name: of the queue.
        end: returns the end from which the queue or shard of a name is popped. Defaults to
            `end_of`.
        settings: of the queue.
    """
    end = end or end_of
    if _is_sharded(url, name):
        return open_sharded(url, name, end=end, **settings)
    settings["max_body_bytes"] = MAX_BODY_BYTES
    return Queue.from_url(url, name, pop_from=end(url, name), **settings)


def open_sharded(
    url: str | None,
    name: str,
    shards: int | None = None,
    *,
    end: Callable[[str | None, str], PopFrom] | None = None,
    **settings: Any,
) -> ShardedQueue:
    """Return the sharded queue, which is created if ``shards`` are given. See `open_any`."""
    from ackq.sharded.client import ShardedQueue

    settings["max_body_bytes"] = MAX_BODY_BYTES
    opened = ShardedQueue.from_url(url, name, shards, **settings)
    found = (end or end_of)(url, opened.shards()[0].name)
    if found == "right":
        return opened
    opened.close()
    return ShardedQueue.from_url(url, name, shards, pop_from=found, **settings)


def lists_of(opened: Queue | ShardedQueue) -> Sequence[Queue]:
    """Return the shards of a sharded queue, or the queue itself."""
    return (opened,) if isinstance(opened, Queue) else opened.shards()


def _is_sharded(url: str | None, name: str) -> bool:
    """Return whether the queue is sharded. Warn if there is a list of its name."""
    from ackq.core.client import client_of
    from ackq.ops.sharded import hides_list, is_sharded

    with client_of(url) as client:
        if not is_sharded(client, name):
            return False
        if hides_list(client, name):
            text = f"ackq: {name} is a sharded queue; the list of the same name is left alone"
            click.echo(printable(text), err=True)
    return True


def end_of(url: str | None, name: str) -> PopFrom:
    """Return the end from which the queue is popped: --pop-from, else as recorded."""
    chosen: PopFrom | None = click.get_current_context().meta.get(_POP_FROM)
    return chosen or recorded_end(url, name)


def recorded_end(url: str | None, name: str) -> PopFrom:
    """Return the end from which the queue is popped, as far as it is recorded."""
    with Queue.from_url(url, name) as queue, suppress(NoPermissionError):
        return queue.execute(lambda spec: recorded(spec.keys))
    return "right"


def ask(question: str, yes: bool) -> None:
    """Return if the user confirms the question, or passed --yes.

    Raises:
        click.UsageError: stdin is not a terminal.
        click.Abort: the user answered no.
        KeyboardInterrupt: the user gave no answer.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("cannot ask for confirmation: stdin is not a terminal; use --yes")
    try:
        agreed = click.confirm(printable(question), err=True)
    except click.Abort:
        raise KeyboardInterrupt from None
    if not agreed:
        raise click.Abort


def seconds(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Validate an option in seconds."""
    if value is not None and (math.isnan(value) or value < 0):
        raise click.BadParameter("must be 0 or more seconds")
    return value


def print_json(value: Any) -> None:
    """Print a line of JSON."""
    click.echo(json_line(value))


def print_body(body: bytes | str) -> None:
    """Print a body on one line: escaped in a terminal, byte for byte elsewhere."""
    click.echo(printable(body) if sys.stdout.isatty() else body)


def body_fields(body: bytes) -> dict[str, str]:
    """Return a body for JSON output: as text, or as Base64 if it is not UTF-8."""
    return _text_field("body", body)


def key_fields(key: str) -> dict[str, str]:
    """Return the key of a delayed message for JSON output, like `body_fields`."""
    return _text_field("key", key.encode(errors="surrogateescape"))


def _text_field(name: str, value: bytes) -> dict[str, str]:
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {f"{name}_base64": b64encode(value).decode()}


def key_to_text(key: bytes) -> str:
    """Return a lease key as a command-line argument, percent-encoded where necessary."""
    return quote_from_bytes(key, safe="/:@+=,~ ")


def key_from_text(text: str) -> bytes:
    """Return the lease key that `key_to_text` encoded."""
    return unquote_to_bytes(text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in a terminal, or tab-separated lines without a header elsewhere."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(printable(each) for each in row))
        return
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ackq.cli.layout import widths

    console = Console(highlight=False)
    named = [printable(column) for column in columns]
    cells = [list(row) for row in rows]
    shown = [[_shown(each)[:SHOWN] for each in row] for row in cells]
    natural = [max(map(cell_len, texts)) for texts in zip(named, *shown, strict=True)]
    fitting = widths(columns, natural, console.width)
    kept = [number for number, column in enumerate(columns) if column in fitting]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for number in kept:
        numbers = any(isinstance(row[number], int | float) for row in cells)
        table.add_column(
            Text(named[number]),
            width=fitting[columns[number]],
            justify="right" if numbers else "left",
        )
    cropped = "ellipsis" if console.encoding.startswith("utf") else "crop"
    for texts in shown:
        table.add_row(
            *(
                Text(texts[number], overflow="fold")
                if columns[number] == "reason"
                else Text(texts[number], no_wrap=True, overflow=cropped)  # type: ignore[arg-type]
                for number in kept
            )
        )
    console.print(table)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else printable(value)


#: Style of each verdict.
STYLES = {"ok": "green", "unknown": "dim", "warning": "yellow", "problem": "bold red"}


def print_findings(rows: Iterable[tuple[str, str, str]]) -> None:
    """Print rows of verdict, check and text, wrapped in a terminal."""
    if not sys.stdout.isatty():
        print_table((), rows)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for verdict, check, text in rows:
        table.add_row(Text(verdict, STYLES[verdict]), check, Text(printable(text)))
    Console(highlight=False).print(table)


def print_steps(title: str, steps: Sequence[str]) -> None:
    """Print numbered steps under a title, wrapped in a terminal."""
    if not sys.stdout.isatty():
        print_table((), [("do", number, step) for number, step in enumerate(steps, 1)])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for number, step in enumerate(steps, 1):
        table.add_row(f"{number}.", Text(printable(step)))
    console = Console(highlight=False)
    console.print()
    console.print(title, style="bold")
    console.print(table)


def local_time(at: float | None) -> str | None:
    """Return a time since the epoch as local time; outside a terminal, with the zone.

    A number outside the calendar's range, which other programs may write, is returned as it is.
    """
    if at is None:
        return None
    from datetime import datetime

    try:
        local = datetime.fromtimestamp(at)
        if not sys.stdout.isatty():
            local = local.astimezone()
    except (ValueError, OverflowError, OSError):
        return str(at)
    return local.isoformat(sep=" ", timespec="seconds")


def short_time(at: float | None) -> str | None:
    """Return a time for a table; in a terminal, without the parts that match today."""
    if at is None or not sys.stdout.isatty():
        return local_time(at)
    from datetime import datetime

    try:
        local, now = datetime.fromtimestamp(at), datetime.now()
    except (ValueError, OverflowError, OSError):
        return str(at)
    if local.date() == now.date():
        return f"{local:%H:%M:%S}"
    return f"{local:%m-%d %H:%M}" if local.year == now.year else f"{local:%Y-%m-%d}"


def span(seconds: float) -> str:
    """Return a short duration, such as ``5 min``, for a terminal."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 360_000 else f"{whole / 86_400:.1f} d"
