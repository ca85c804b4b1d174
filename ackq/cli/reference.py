"""Generate docs/cli.md: run ``python -m ackq.cli.reference`` in a checkout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import click

from ackq.cli import COMMANDS, WIDTH, main
from ackq.cli.options import url_option

HEAD = """<!-- Generated from the help of the commands by `python -m ackq.cli.reference`. -->

# The command line

The help of every command, as `ackq COMMAND --help` prints it. These options are left out below:
every command has `--help`, and every command that connects to Redis has the others.

```text
{}
```
"""


def reference() -> str:
    """Return the page with the help of every command."""
    shared = click.command(url_option(lambda: None))
    left_out = {each.name for each in shared.params}
    parts = [HEAD.format(help_of(("COMMAND",), shared))]
    for names, original in commands():
        command = copy(original)
        command.params = [each for each in original.params if each.name not in left_out]
        command.add_help_option = False
        title = "#" * min(2 + len(names), 4) + " " + " ".join(("ackq", *names))
        parts.append(f"{title}\n\n```text\n{help_of(names, command)}\n```\n")
    return "\n".join(parts)


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
