"""``ackq scripts``: show the Lua scripts, export them, or load them."""

from __future__ import annotations

from pathlib import Path

import click

from ackq import scripts as stored
from ackq.cli import Group
from ackq.cli.options import examples, json_option, url_option
from ackq.cli.output import print_json
from ackq.cli.tables import print_table


@click.group(cls=Group)
def scripts() -> None:
    """Show the Lua scripts, export them, or load them into a server.

    ackq runs these scripts in Redis. Export them for a client in another language, or load
    them for users without permission to send scripts (ackq acl --no-eval).
    """


@scripts.command(epilog=examples("ackq scripts show", "ackq scripts show pop"))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
def show(names: tuple[str, ...], as_json: bool) -> None:
    """Print scripts by NAME.

    Without a NAME, lists all names with their SHA1.
    """
    known = stored.names()
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no script {name!r}; ackq scripts show lists them")
    loaded = [stored.load(name) for name in names or known]
    if as_json:
        for script in loaded:
            print_json(
                {"name": script.name, "sha1": script.sha.decode(), "text": script.text.decode()}
            )
    elif names:
        for script in loaded:
            click.echo(script.text, nl=False)
    else:
        print_table(("name", "sha1"), [(script.name, script.sha) for script in loaded])


@scripts.command(epilog=examples("ackq scripts export vendor/ackq"))
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def export(folder: Path) -> None:
    """Write each script into DIR, as one whole file.

    DIR/rsmq/send.lua is the script "rsmq/send". Other files in DIR stay. Prints names and SHA1.
    """
    for script in map(stored.load, stored.names()):
        path = folder / f"{script.name}.lua"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(script.text)
        click.echo(f"{script.name}\t{script.sha.decode()}")


@scripts.command(epilog=examples("ackq scripts load"))
@url_option
def load(url: str | None) -> None:
    """Load all scripts into a server, or into every node of a cluster.

    Repeat this after each restart: the server then has no scripts. Prints names and SHA1. The user
    needs only +script|load, and in a cluster +cluster|slots.
    """
    from ackq.core.client import client_of
    from ackq.core.io.nodes import nodes_of

    with client_of(url) as client:
        for node in nodes_of(client, replicas=True):
            with node:
                loaded = [
                    (name, node.script_load(stored.load(name).text)) for name in stored.names()
                ]
        for name, sha in loaded:
            click.echo(f"{name}\t{sha}")
