"""``ackq acl``."""

from __future__ import annotations

from itertools import chain
from textwrap import wrap

import click

from ackq.cli.connection import examples, json_option, print_json, queue_argument
from ackq.ops.acl import ROLES, rules

#: What --redis-6 costs.
WEAKER = ("without selectors, each user may run each of its commands on each of its keys: one that"
          " may only count can also let the queue expire")  # fmt: skip


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
              help="Do not allow EVAL. Load the scripts after each start of Redis: ackq scripts"
              " load.")  # fmt: skip
@click.option("--redis-6", "redis_6", is_flag=True,
              help="For Redis 6.2, which has no selectors. These rules are weaker: a user may run"
              " each of its commands on each of its keys.")  # fmt: skip
@json_option
def acl(
    queue: str, roles: tuple[str, ...], user: str | None, no_eval: bool, redis_6: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Print ACL rules that let users do to QUEUE what their role needs, and little else.

    Prints a line for redis-cli for each ROLE, or for all of them. Each command is allowed on the
    keys that the role needs it for, and on no other. This takes selectors, which Redis 7 and
    Valkey have; --redis-6 does without.

    What a role needs can still do harm: a consumer can throw away messages instead of working on
    them, since taking one removes it from the list.

    Nobody can log in before you set a password: ACL SETUSER NAME '>secret'. For a database other
    than 0 add +select.
    """
    if user and len(roles) != 1:
        raise click.UsageError("--user needs one ROLE")
    if redis_6:
        click.echo(f"ackq: {WEAKER}", err=True)
    for role in roles or ROLES:
        named = user or f"{queue}-{role}"
        words = rules(queue, role, eval=not no_eval, selectors=not redis_6)
        if as_json:
            print_json({"user": named, "role": role, "rules": words})
        else:
            click.echo(" ".join(["ACL SETUSER", *map(_quoted, [named, *words])]))


def _quoted(word: str) -> str:
    """Return a word as redis-cli reads it."""
    if word.isprintable() and not any(each in word for each in " \"'\\"):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
