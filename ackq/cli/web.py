"""``ackq web``."""

from __future__ import annotations

from pathlib import Path

import click

from ackq.cli.options import examples, time_field_option, url_option
from ackq.errors import ConfigurationError


@click.command(
    epilog=examples(
        "ackq web --listen 127.0.0.1:8383",
        "ackq web jobs --listen 127.0.0.1:8383",
        "ackq web --operate",
    )
)
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option(
    "--listen",
    default="127.0.0.1:8383",
    metavar="HOST:PORT",
    help="Address to listen on. Any but a loopback address needs --users.  [127.0.0.1:8383]",
)
@click.option(
    "--operate",
    is_flag=True,
    help="Let people redrive and drop dead letters, pause queues, and so on.",
)
@click.option(
    "--users",
    "users_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Ask for a user name and a password: lines name:password.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which the page is reached, such as queues.example.com. IP"
    " addresses and localhost need none; may be repeated.",
)
@click.option(
    "--user-header",
    metavar="NAME",
    help="Header in which a proxy in front names the user, for the log of operations.",
)
@time_field_option
@click.option(
    "--no-history",
    is_flag=True,
    help="Keep no figures of each minute in Redis. Workers and other pages may keep them.",
)
@click.option(
    "--root-path",
    default="",
    metavar="PREFIX",
    help="Prefix that a proxy in front removes from paths, such as /queues.",
)
def web(
    queues: tuple[str, ...],
    url: str | None,
    listen: str,
    operate: bool,
    users_file: Path | None,
    hosts: tuple[str, ...],
    user_header: str | None,
    time_field: str | None,
    no_history: bool,
    root_path: str,
) -> None:
    """Show QUEUES, or all queues found, on a web page, until Ctrl-C.

    The page shows counts, rates, messages, dead letters, workers and the server's settings.
    Without --operate it only reads, but while somebody looks, consumers count what they do, as
    for ackq top, and the page keeps the figures of each minute in Redis. With --operate it has
    buttons, and everything done with them is recorded in Redis, with the user's name.

    Anyone who reaches the page can read messages, so it listens on a loopback address unless
    there are passwords. Passwords are sent unencrypted: put a proxy with TLS in front.
    """
    try:
        from ackq.web.access import address_of, endpoint_of, read_users
        from ackq.web.access import listen as listen_on
        from ackq.web.application import application
        from ackq.web.connections import server_of
    except ModuleNotFoundError as error:
        raise ConfigurationError("the page needs more: pip install 'ackq[web]'") from error
    from ackq.core.client import client_of
    from ackq.worker.signals import stopping_on_signals

    endpoint = endpoint_of(listen)
    users = read_users(users_file) if users_file else None
    with listen_on(*endpoint, users) as listener, client_of(url) as client:
        page = application(
            client,
            queues,
            hosts=(*hosts, endpoint[0]),
            users=users,
            operate=operate,
            user_header=user_header,
            time_field=time_field,
            history=not no_history,
        )
        server = server_of(page, root_path.rstrip("/"))

        def stop() -> None:
            server.should_exit = True

        # uvicorn handles signals only while its loop runs, and raises them again afterwards.
        with stopping_on_signals(stop):
            click.echo(f"{address_of(listener)}  (Ctrl-C ends it)")
            server.run(sockets=[listener])
