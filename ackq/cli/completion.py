"""``ackq completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ackq.cli.options import examples


@click.command(epilog=examples("ackq completion zsh"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    In ~/.bashrc: eval "$(ackq completion bash)". In ~/.zshrc: the same with zsh. For fish: ackq
    completion fish > ~/.config/fish/completions/ackq.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "ackq", "_ACKQ_COMPLETE").source())
