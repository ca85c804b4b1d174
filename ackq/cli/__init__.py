"""The command ``ackq``.

To add a command, add a module with a click command of the same name, an underscore for each hyphen,
and a line in `GROUPS`. Shared options are in `options`. A module is imported only when its command
runs; ``ackq --help`` lists commands from `GROUPS`. This keeps start-up fast.
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
from ackq.scripts import FORMAT

#: The commands by group, each with its line in ``ackq --help``.
GROUPS = {
    "Everyday commands": {
        "demo": "Watch ackq survive a killed worker, and check the result.",
        "push": "Push JSON objects.",
        "pop": "Take messages, each under a lease.",
        "ack": "Acknowledge messages taken with pop.",
        "nack": "Return messages taken with pop.",
        "extend": "Extend the leases of messages taken with pop.",
        "work": "Run workers that call your function for each message.",
        "tasks": "List a module's tasks, and print the JSON Schema of each.",
        "queues": "List the queues and lists of a server; also: ackq ls.",
        "stats": "Count the messages of a queue by state.",
        "peek": "Show messages without taking them.",
        "find": "Find a message by its id.",
        "search": "Search for messages by their fields.",
        "cancel": "Cancel messages by their ids.",
        "run-now": "Put messages before all others, by their ids.",
    },
    "Watching and operating": {
        "attention": "Show what needs a person now. Exit code 1 if anything does.",
        "top": "Watch all queues live.",
        "web": "Watch all queues on a web page.",
        "exporter": "Serve metrics to Prometheus and KEDA.",
        "notify": "Post alerts to a webhook, such as that of a chat.",
        "mark": "Mark a moment, such as a deployment, in the curves of the page.",
        "workers": "List workers and their messages; quiet or stop them.",
        "delayed": "List, run or cancel delayed messages.",
        "dead": "List, redrive or drop dead letters.",
        "groups": "Show the groups of a queue, or turn them on and off.",
        "schedules": "Put, list, pause or remove the schedules of a queue.",
        "claims": "List or release the claims of queries.",
        "pause": "Pause a queue: no consumer takes messages.",
        "resume": "Resume a paused queue.",
        "move": "Move or copy messages to another queue or server.",
        "drain": "Put all messages back on the list, for a bare RPOP.",
        "purge": "Delete every message of a queue.",
        "audit": "Check every record of a queue.",
        "doctor": "Check whether a Redis is safe to use as a queue.",
        "acl": "Print least-privilege ACL rules for the users of a queue.",
    },
    "Moving a list to ackq": {
        "adopt": "Look at a list before ackq takes it over.",
        "recover": "Put back messages left in processing lists.",
    },
    "Other kinds of queue": {
        "topic": "Work with topics that can be replayed.",
        "delay": "Work with delay queues.",
        "rsmq": "Work with queues shared with RSMQ and its ports.",
        "sharded": "Work with queues sharded over several nodes.",
    },
    "Spark": {
        "pipeline": "Process a queue or topic with Spark: check, transform, write.",
    },
    "Tools": {
        "serve": "Run a Redis server for development.",
        "bench": "Compare ackq with a bare list and a stream on a Redis.",
        "scripts": "Show the Lua scripts, export them, or load them into a server.",
        "completion": "Print the shell completion script.",
    },
}
#: The same without the groups.
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
#: Another name of a command: that of its module.
ALIASES = {"queues": "ls"}

#: Exit codes. They are part of the public interface: shell scripts branch on them.
NOTHING, USAGE, FAILED, UNREACHABLE, FENCED, INTERRUPTED, UNREAD = 1, 2, 3, 4, 5, 130, 141

#: Maximum width of help texts, in columns.
WIDTH = 96

EPILOG = """\b
Exit codes:
  0    done
  1    nothing found, or a problem (attention, audit, adopt, doctor, demo)
  2    wrong usage
  3    ackq, Redis or the operating system reported an error
  4    Redis cannot be reached
  5    another process took over (pipeline)
  130  interrupted
  141  the reader of the output closed it, as in ackq ... | head

Times are in seconds; with a unit, write 500ms, 5m, 1.5h or 2d.

With neither --url nor ACKQ_REDIS_URL, ackq starts its own server, which later commands use, too.
Its data is in ACKQ_HOME, or ~/.local/share/ackq."""


class Group(click.Group):
    """A group that suggests commands with similar names for a misspelt one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command named by the first argument."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = " or ".join(get_close_matches(args[0], self.list_commands(ctx)))
            if not near:
                raise
            text = f"No such command {args[0]!r}. Did you mean {near}?"
            raise click.UsageError(text, ctx) from error


class Commands(Group):
    """The top-level group. It imports a command only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in ALIASES.values():
            return None
        name = ALIASES.get(cmd_name, cmd_name).replace("-", "_")
        command: click.Command = getattr(import_module(f"ackq.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), line) for name, line in commands.items()])

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the arguments, and handle --help and --version."""
        _prepare_streams()
        with _report_errors():
            try:
                return super().make_context(info_name, args, parent, **extra)
            except click.NoSuchOption as error:
                option = error.option_name
                if option not in ("--url", "--url-file"):
                    raise
                text = f"{option} stands after the command, as in ackq stats {option} … jobs"
                raise click.UsageError(text, error.ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _report_errors():
            return super().invoke(ctx)


#: Errors of Redis and of the network, and what to print instead; {0} is the error.
_ADVICE = (
    # From a script, the reply adds the line.
    (
        r"MISCONF (.*?)\.?( script: \w+, on .*)?$",
        "Redis cannot write to its disk ({1}), so it neither takes messages nor hands them out."
        " Make room: it goes on by itself",
    ),
    (
        "no permissions|NOPERM",
        "{0}. The ACL of this user does not permit it: ackq acl QUEUE prints the rules that each"
        " role needs",
    ),
    (
        "read only replica",
        "{0} This server is a replica: use the URL of its primary, which ackq doctor shows",
    ),
    (
        "used memory > 'maxmemory'",
        "Redis is full, so nothing was stored. Consumers go on and make room. To take more"
        " messages, raise maxmemory",
    ),
    ("DB index", "{0}: the URL names a database that this server does not have"),
    (
        "not known|name resolution|nodename",
        "{0} Nothing has this name: check the host in the URL",
    ),
)


@contextmanager
def _report_errors() -> Iterator[None]:
    """Turn an error into one line on stderr, without passwords, and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _end_unread()
    except SystemExit as end:
        # rich exits this way if the reader of the output is gone.
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
    for pattern, advice in _ADVICE:
        if found := re.search(pattern, text):
            text = advice.format(text, *found.groups())
            break
    with suppress(OSError):
        click.echo(f"ackq: {printable(' '.join(text.splitlines()))}", err=True)
    _drop_unwritten()
    raise click.exceptions.Exit(code) from error


def _end_unread() -> NoReturn:
    """Exit silently with 128 + 13, as if by SIGPIPE, which Python ignores."""
    _drop_unwritten()
    raise click.exceptions.Exit(UNREAD) from None


def _prepare_streams() -> None:
    """Replace closed standard streams, and escape characters that the encoding cannot express.

    If the shell closed a stream, Python sets it to None, and the next file or socket to be opened
    would get its file descriptor.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        # Opened for reading, so that writing fails, as it does on a closed stream.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _drop_unwritten() -> None:
    """Discard unwritten output. Otherwise Python writes it at exit, and prints an error."""
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
@click.version_option(package_name="ackq", message=f"%(prog)s %(version)s, format {FORMAT}")
def main() -> None:
    """A reliable queue over the Redis list you already push to."""
