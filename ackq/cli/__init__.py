"""The command ``ackq``.

A new command is a module here with a click command of the same name, and a line in `COMMANDS`.
`connection` has what commands share. A module is imported when its command runs, or is listed by
name in ``--help`` with the line from `COMMANDS`, so that starting up stays quick.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click
import redis

from ackq.errors import AckqError, PipelineFenced, redact
from ackq.escaping import printable

#: Name of each command, and what ``ackq --help`` says of it.
COMMANDS = {
    "demo": "See it work: real jobs, a killed worker, a checked account.",
    "push": "Push JSON objects.",
    "pop": "Take messages, each under a lease.",
    "ack": "Settle messages that pop took.",
    "nack": "Give messages back that pop took.",
    "extend": "Keep messages for longer that pop took.",
    "work": "Hand messages to a function of yours, all day.",
    "stats": "Count the messages by where they are.",
    "top": "Watch all queues.",
    "peek": "Look at messages without taking them.",
    "dead": "Read dead letters, redrive or drop them.",
    "claims": "List or release what queries took by the batch.",
    "pause": "Let no consumer take anything.",
    "resume": "Let consumers take again.",
    "move": "Move or copy messages to another queue or server.",
    "drain": "Put everything back on the list, for a bare RPOP.",
    "audit": "Check every record of a queue.",
    "purge": "Delete every message of a queue.",
    "rsmq": "Queues shared with RSMQ and its ports.",
    "topic": "Topics that can be replayed.",
    "delay": "Delay queues.",
    "pipeline": "Queue or topic through Spark: check, transform, write.",
    "sharded": "List queues over several nodes.",
    "serve": "Run a Redis of your own, for development.",
    "doctor": "Look at a Redis before you trust it with messages.",
    "acl": "Print least-privilege rules for the users of a queue.",
    "bench": "Measure ackq, a bare list and a stream on a Redis.",
    "scripts": "Show the Lua scripts, or load them into a server.",
    "completion": "Print what makes a shell complete ackq's commands.",
}

#: Exit codes. They are part of the interface: scripts branch on them.
NOTHING, USAGE, FAILED, UNREACHABLE, FENCED, INTERRUPTED, UNREAD = 1, 2, 3, 4, 5, 130, 141

#: Columns that help takes of a wide terminal.
WIDTH = 96

EPILOG = """\b
Exit codes:
  0    done
  1    nothing there, not sound (audit, doctor), or a check failed (demo)
  2    wrong usage
  3    ackq, Redis or this machine refused
  4    Redis cannot be reached
  5    another process took over (pipeline)
  130  interrupted
  141  whoever read its output went away, as in ackq ... | head

Without --url and ACKQ_REDIS_URL a Redis of your own is started once, and found again by every
later command; its data is in ACKQ_HOME, or ~/.local/share/ackq."""


class Group(click.Group):
    """A group that suggests the command that a misspelt name may stand for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = " or ".join(get_close_matches(args[0], self.list_commands(ctx)))
            if not near:
                raise
            text = f"No such command {args[0]!r}. Did you mean {near}?"
            raise click.UsageError(text, ctx) from error


class Commands(Group):
    """The group that imports a command when it is called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"ackq.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:  # fmt: skip
        """Read the arguments, and print what --help and --version ask for."""
        _prepare_streams()
        with _report_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _report_errors():
            return super().invoke(ctx)


#: What Redis replies then; within a script it adds the place.
_MISCONF = re.compile(r"MISCONF (?P<why>.*?)\.?( script: \w+, on .*)?$")


@contextmanager
def _report_errors() -> Iterator[None]:
    """Make of an error one line on stderr, without passwords, and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _end_unread()
    except SystemExit as end:
        # So rich ends a program whose output nobody reads.
        if isinstance(end.__context__, BrokenPipeError):
            _end_unread()
        raise
    except PipelineFenced as error:
        _fail(error, FENCED)
    except AckqError as error:
        _fail(error, FAILED)
    except (redis.ConnectionError, redis.TimeoutError) as error:
        _fail(error, UNREACHABLE)
    except (redis.RedisError, OSError) as error:
        _fail(error, FAILED)


def _fail(error: Exception, code: int) -> NoReturn:
    text = redact(str(error)) or type(error).__name__
    if found := _MISCONF.match(text):
        text = (f"Redis cannot write to its disk ({found['why']}), so it neither takes messages nor"
                " hands them out. Make room: it goes on by itself")  # fmt: skip
    with suppress(OSError):
        click.echo(f"ackq: {printable(' '.join(text.splitlines()))}", err=True)
    _drop_unwritten()
    raise click.exceptions.Exit(code) from error


def _end_unread() -> NoReturn:
    """End as SIGPIPE, which Python ignores, ends others: silently, and a shell sees 128 + 13."""
    _drop_unwritten()
    raise click.exceptions.Exit(UNREAD) from None


def _prepare_streams() -> None:
    """Give a closed stream its place, and let an encoding escape what it cannot express.

    Python has None for a stream that the shell closed, and its number would be that of the next
    file or socket to be opened.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        # Opened for reading: to write is an error, as it is to a closed one.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _drop_unwritten() -> None:
    """Forget what could not be written: at its end Python would try again, and fail loudly."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@click.group(
    cls=Commands,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
)
@click.version_option(package_name="ackq", message="%(prog)s %(version)s")
def main() -> None:
    """A reliable queue over the Redis list you already push to."""
