"""Generate docs/cli.md: run ``python -m ackq.cli.reference`` in a checkout."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import click

from ackq.cli import COMMANDS, WIDTH, main
from ackq.cli.options import url_option

HEAD = """<!-- Generated from the help of the commands by `python -m ackq.cli.reference`. -->

# The command line

The help of every command, as `ackq COMMAND --help` prints it, except for options that many commands
have: these are explained here. Every command has `--help`, and every command that connects to Redis
has `--url` and `--url-file`. The usage of a command names the others that it has.

```text
{}
```
"""
#: An option that as many commands have, word for word, is explained once.
MANY = 8


def reference() -> str:
    """Return the page with the help of every command."""
    shared = click.command(url_option(lambda: None))
    connecting = {each.name for each in shared.params}
    uses = Counter(_said(each) for _, command in commands() for each in _options(command))
    once: dict[str, click.Parameter] = {}
    parts = []
    for names, original in commands():
        command = copy(original)
        options = [each for each in _options(original) if each.name not in connecting]
        many = {_said(each): each for each in options if uses[_said(each)] >= MANY}
        once |= many
        left_out = connecting.union(each.name for each in many.values())
        command.params = [each for each in original.params if each.name not in left_out]
        command.add_help_option = False
        command.options_metavar = " ".join(
            ["[OPTIONS]"] * bool(_options(command))
            + [f"[{max(each.opts, key=len)}]" for each in many.values()]
        )
        title = "#" * min(2 + len(names), 4) + " " + " ".join(("ackq", *names))
        parts.append(f"{title}\n\n```text\n{help_of(names, command)}\n```\n")
    shared.params += once.values()
    return "\n".join([HEAD.format(help_of(("COMMAND",), shared)), *parts])


def _options(command: click.Command) -> list[click.Parameter]:
    return [each for each in command.params if isinstance(each, click.Option)]


def _said(option: click.Parameter) -> str:
    """Return what help says of an option."""
    with click.Context(main) as ctx:
        return "  ".join(option.get_help_record(ctx) or ())


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its names, a group before its commands."""
    yield (), main
    with click.Context(main, info_name="ackq") as ctx:
        for name in COMMANDS:
            command = main.get_command(ctx, name)
            assert command is not None
            yield (name,), command
            if isinstance(command, click.Group):
                yield from (
                    ((name, subcommand), inner) for subcommand, inner in command.commands.items()
                )


def help_of(names: tuple[str, ...], command: click.Command, width: int = WIDTH) -> str:
    """Return the help of a command as shown in a terminal of the given width."""
    ctx = click.Context(
        command,
        info_name=" ".join(("ackq", *names)),
        max_content_width=WIDTH,
        terminal_width=width,
        help_option_names=["-h", "--help"],
    )
    return command.get_help(ctx).rstrip()


if __name__ == "__main__":
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    if not page.parent.is_dir():
        sys.exit(f"{page.parent} is not there: run this in a checkout")
    page.write_text(reference(), encoding="utf-8")
