"""Shared by the commands: options and output."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

import click
from click.core import ParameterSource

from ackq.escaping import json_line, printable

F = TypeVar("F", bound=Callable[..., Any])

#: Characters of a body that a table shows.
SHOWN = 200

#: Key of the context's meta that holds the URL read from --url-file.
_URL_FROM_FILE = "ackq.url"
number_option = click.option(
    "-n", "--number", type=click.IntRange(1), default=1, help="Maximum number of messages.  [1]"
)
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


time_field_option = click.option(
    "--time-field",
    metavar="FIELD",
    help="Field of the body with the time at which a message was created; besides the time of"
    " CloudEvents.",
)


def examples(*commands: str) -> str:
    """Return the Examples section of a command's help.

    A test runs the examples in order, on a queue ``jobs`` with messages in every state.
    """
    return "\n".join(["\b", "Examples:", *(f"  {each}" for each in commands)])


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


def seconds_option(*names: str, help: str, **settings: Any) -> Callable[[F], F]:
    """Return an option that takes 0 or more seconds."""
    return click.option(
        *names, type=float, callback=seconds, metavar="SECONDS", help=help, **settings
    )


wait_option = seconds_option(
    "--wait", help="Wait this long for the first message; inf: forever.  [do not wait]"
)
#: The lease of the commands that take messages.
lease_option = seconds_option(
    "--lease", default=30.0, help="Time until they are redelivered unless settled.  [30]"
)


def print_json(value: Any) -> None:
    """Print a line of JSON."""
    click.echo(json_line(value))


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
