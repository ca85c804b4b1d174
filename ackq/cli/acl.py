"""``ackq acl``."""

from __future__ import annotations

from itertools import chain
from textwrap import wrap

import click

from ackq.cli.connection import examples, json_option, print_json, queue_argument
from ackq.protocol.acl import ROLES, rules


def _described() -> str:
    width = max(map(len, ROLES))
    lines = (wrap(role.purpose, 78, initial_indent=f"  {name:<{width}}  ",
                  subsequent_indent=" " * (width + 4)) for name, role in ROLES.items())  # fmt: skip
    return "\n".join(["\b", "Roles:", *chain.from_iterable(lines)])


@click.command(
    epilog=_described() + "\n\n" + examples("ackq acl jobs consumer", "ackq acl jobs --json")
)
@queue_argument
@click.argument("roles", nargs=-1, type=click.Choice(list(ROLES)), metavar="[ROLE]...")
@click.option("--user", metavar="NAME", help="Name of the user.  [QUEUE-ROLE]")
@click.option("--no-eval", is_flag=True,
              help="For who loads the scripts after each start of Redis: ackq scripts load."
              )  # fmt: skip
@json_option
def acl(queue: str, roles: tuple[str, ...], user: str | None, no_eval: bool, as_json: bool) -> None:
    """Print the rules for users that may do no more to QUEUE than they have to.

    A line for redis-cli each, for every ROLE or for those that are named. They name each key
    exactly, for Redis 6.2 and later. Nobody can log in before you set a password:
    ACL SETUSER NAME '>secret'. For a database other than 0 add +select.
    """
    if user and len(roles) != 1:
        raise click.UsageError("--user needs one ROLE")
    for role in roles or ROLES:
        named = user or f"{queue}-{role}"
        words = rules(queue, role, eval=not no_eval)
        if as_json:
            print_json({"user": named, "role": role, "rules": words})
        else:
            click.echo(" ".join(["ACL SETUSER", *map(_quoted, [named, *words])]))


def _quoted(word: str) -> str:
    """Return a word as redis-cli reads it."""
    if word.isprintable() and not any(each in word for each in " \"'\\"):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
