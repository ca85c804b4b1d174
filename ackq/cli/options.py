"""Options of several commands, and the examples in their help."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ackq.errors import ConfigurationError

F = TypeVar("F", bound=Callable[..., Any])

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


def limit_option(command: F) -> F:
    """Add the option --limit, whose value is an `ackq.ops.attention.model.Limits`."""
    return click.option(
        "--limit",
        "limits",
        multiple=True,
        envvar="ACKQ_LIMITS",
        callback=_limits,
        metavar="LIMIT",
        help="When a trouble begins, as in oldest=60; 0: never. May be repeated.  [ACKQ_LIMITS]",
    )(command)


def _limits(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    from ackq.ops.attention.model import Limits

    try:
        return Limits.parse(given)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from None


def max_body_option(help: str) -> Callable[[F], F]:
    """Return the option --max-body, in bytes."""
    return click.option("--max-body", type=click.IntRange(1), metavar="BYTES", help=help)


def examples(*commands: str) -> str:
    """Return the Examples section of a command's help.

    A test runs the examples in order, on a queue ``jobs`` with messages in every state.
    """
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def seconds(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Validate an option in seconds."""
    if value is not None and (math.isnan(value) or value < 0):
        raise click.BadParameter("must be 0 or more seconds")
    return value


class _Duration(click.ParamType):  # type: ignore[type-arg]
    """A number of seconds, or one with a unit: 500ms, 5m, 1.5h."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
        number, unit = re.fullmatch(r"(.*?)(ms|[smhd]?)", str(value), re.DOTALL).groups()  # type: ignore[union-attr]
        try:
            return float(number) * units.get(unit, 1)
        except ValueError:
            self.fail(f"{value!r} is not a number of seconds, nor one like 500ms, 5m or 1.5h")


def seconds_option(*names: str, help: str, **settings: Any) -> Callable[[F], F]:
    """Return an option that takes 0 or more seconds, or another unit of time."""
    return click.option(
        *names, type=_Duration(), callback=seconds, metavar="SECONDS", help=help, **settings
    )


wait_option = seconds_option(
    "--timeout",
    "--wait",
    "wait",
    help="Wait this long for the first message; inf: forever.  [do not wait]",
)
#: The lease of the commands that take messages.
lease_option = seconds_option(
    "--lease", default=30.0, help="Time until they are redelivered unless settled.  [30]"
)
