"""``ackq serve``."""

from __future__ import annotations

import signal
import socket
from typing import Any

import click

from ackq.cli import FAILED
from ackq.cli.connection import examples
from ackq.errors import AckqError


@click.command(epilog=examples("ackq serve --port 6380", "ackq serve --stop"))
@click.option("--port", type=click.IntRange(1, 65535), default=6379, help="Where.  [6379]")
@click.option("--dir", "directory", type=click.Path(file_okay=False), metavar="DIR",
              help="Where its data is.  [serve, in ACKQ_HOME or ~/.local/share/ackq]"
              )  # fmt: skip
@click.option("--stop", is_flag=True,
              help="Stop the Redis that commands without a --url started, and run none."
              )  # fmt: skip
@click.pass_context
def serve(ctx: click.Context, port: int, directory: str | None, stop: bool) -> None:
    """Run a Redis of your own until Ctrl-C, for development.

    On the loopback interface alone, without a password. It keeps its data. If the server is killed
    or the power fails, up to about 2 seconds of what it answered can be lost.
    """
    from ackq import embedded

    if stop:
        click.echo("stopped" if embedded.stop_shared() else "there was none")
        return
    folder = directory or embedded.data_folder() / "serve"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        with embedded.exclusive(folder):
            _check_free(port)
            with embedded.Server(folder, port=port) as server:
                click.echo(f"export ACKQ_REDIS_URL={server.url}")
                click.echo(f"ackq: data in {folder}; Ctrl-C ends it", err=True)
                server.wait()
                click.echo("ackq: the redis-server ended by itself; its log is there", err=True)
                ctx.exit(FAILED)
    except KeyboardInterrupt:
        return


def _check_free(port: int) -> None:
    """Say in a line why nothing can listen there: the server would write it into its log."""
    with socket.socket() as trial:
        # As the server does: what closed its connections a moment ago is in nobody's way.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise AckqError(f"cannot listen on port {port}: {error.strerror}") from error


def _end(*_: Any) -> None:
    """End as Ctrl-C does: with the server."""
    raise KeyboardInterrupt
