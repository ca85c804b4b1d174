"""Asks before a command deletes or moves messages."""

from __future__ import annotations

import sys

import click

from ackq.escaping import printable


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
