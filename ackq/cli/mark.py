"""``ackq mark``."""

from __future__ import annotations

import getpass
import socket

import click

from ackq.cli.options import examples, url_option


@click.command(epilog=examples('ackq mark "deploy v2.3"', 'ackq mark "flag off" --who ada'))
@click.argument("text")
@url_option
@click.option("--who", metavar="NAME", help="Name to record.  [user@host]")
def mark(text: str, url: str | None, who: str | None) -> None:
    """Mark this moment with TEXT, such as a deployment, in the curves of ackq web.

    The mark is recorded beside the operations of the page, in ackq:web:log, and is shown in the
    curves of all queues of the server. At most 300 characters are kept.
    """
    if not text.strip():
        raise click.UsageError('TEXT says what happened, as in ackq mark "deploy v2.3"')
    from ackq.core.client import client_of
    from ackq.ops.operation_log import OperationLog

    with client_of(url) as client, OperationLog(client) as log:
        log.mark(who or f"{_user()}@{socket.gethostname()}", text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return "unknown"
