"""``ackq serve``."""

from __future__ import annotations

import hashlib
import secrets
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ackq.cli import FAILED
from ackq.cli.options import examples
from ackq.embedded.files import answers, port_of, private, socket_path
from ackq.errors import AckqError


@click.command(epilog=examples("ackq serve --port 6380", "ackq serve --stop"))
@click.option(
    "--port", type=click.IntRange(1, 65535), default=6379, help="Port to listen on.  [6379]"
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Folder of its data.  [serve, in ACKQ_HOME or ~/.local/share/ackq]",
)
@click.option(
    "--stop", is_flag=True, help="Stop the private Redis that commands without --url use, and exit."
)
@click.pass_context
def serve(ctx: click.Context, port: int, directory: str | None, stop: bool) -> None:
    """Run a Redis server for development, until Ctrl-C.

    It listens on the loopback interface only and prints its URL, with a password that stays the
    same. If it is already running, only the URL is printed again. CONFIG SET, MODULE, DEBUG, ACL
    and REPLICAOF are disabled, so that anyone who has the password still cannot write files as
    you. It runs the newest installed Redis that can read the data.

    The data is kept in files that only you can read. If the server is killed or the power fails,
    the last 2 seconds or so of confirmed writes can be lost.
    """
    from ackq import embedded

    if stop:
        click.echo("stopped" if embedded.stop_shared() else "there was none")
        return
    folder = directory or embedded.data_folder() / "serve"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    if answers(socket_path(Path(folder).absolute())):
        _print_url(_password_in(Path(folder)), port_of(Path(folder)))
        click.echo(f"ackq: it is already running, data in {folder}", err=True)
        return
    try:
        with embedded.exclusive(folder):
            _check_free(port)
            password = _password_in(Path(folder))
            with embedded.Server(folder, port=port, options={"user": _user(password)}) as server:
                _print_url(password, port)
                click.echo(f"ackq: {server.release}, data in {folder}; Ctrl-C ends it", err=True)
                server.wait()
                click.echo("ackq: the redis-server ended by itself; its log is there", err=True)
                ctx.exit(FAILED)
    except KeyboardInterrupt:
        return


def _print_url(password: str, port: int) -> None:
    click.echo(f"export ACKQ_REDIS_URL=redis://:{password}@127.0.0.1:{port}/0")


def _password_in(folder: Path) -> str:
    """Return the password of the server in ``folder``; create it at the first start."""
    path = folder / "password"
    with suppress(FileNotFoundError):
        if password := path.read_text(encoding="utf-8").strip():
            return password
    password = secrets.token_urlsafe(24)
    with open(path, "w", encoding="utf-8", opener=private) as file:
        file.write(f"{password}\n")
    return password


def _user(password: str) -> str:
    """Return the ACL rules of the only user, without commands that write files or load code."""
    digest = hashlib.sha256(password.encode()).hexdigest()
    return (
        f"default on #{digest} ~* &* +@all -config +config|get -acl +acl|whoami -module -debug"
        " -replicaof -slaveof"
    )


def _check_free(port: int) -> None:
    """Raise AckqError if the port cannot be used; the server would only log the reason."""
    with socket.socket() as trial:
        # The server sets this, too, so recently closed connections do not block the port.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise AckqError(f"cannot listen on port {port}: {error.strerror}") from error


def _end(*_: Any) -> None:
    """Handle a signal like Ctrl-C, so that the server is stopped."""
    raise KeyboardInterrupt
