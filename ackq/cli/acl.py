"""``ackq acl``."""

from __future__ import annotations

from itertools import chain
from textwrap import wrap

import click

from ackq.cli.options import examples, json_option
from ackq.cli.output import print_json
from ackq.cli.queues import queue_argument
from ackq.config import PopFrom
from ackq.membership.operations import MAX_PARTITIONS
from ackq.ops.acl import OTHER_ROLES, ROLES, roles_of, rules

#: The warning that --redis-6 prints.
WEAKER = (
    "without selectors, each user may run each of its commands on each of its keys: one that"
    " may only count can also let the queue expire"
)


def _described() -> str:
    width = max(map(len, ROLES))
    lines = (
        wrap(
            role.purpose,
            78,
            initial_indent=f"  {name:<{width}}  ",
            subsequent_indent=" " * (width + 4),
        )
        for name, role in ROLES.items()
    )
    others = (
        f"Delay queues, topics and RSMQ queues have {', '.join(OTHER_ROLES['delay'])}."
        " Sharded queues have all but doctor and loader."
    )
    return "\n".join(["\b", "Roles:", *chain.from_iterable(lines), "", others, "", ""])


@click.command(
    epilog=_described()
    + examples(
        "ackq acl jobs consumer",
        "ackq acl jobs --json",
        "ackq acl invoices consumer --kind delay --partitions 16",
        "ackq acl orders worker --kind sharded",
    )
)
@queue_argument
@click.argument("roles", nargs=-1, type=click.Choice(list(ROLES)), metavar="[ROLE]...")
@click.option(
    "--kind",
    type=click.Choice(["list", *OTHER_ROLES]),
    default="list",
    help="Kind of QUEUE; RSMQ's are named NAMESPACE:QUEUE.  [list]",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, MAX_PARTITIONS),
    metavar="N",
    help="Number of partitions of a delay queue.  [not partitioned]",
)
@click.option("--user", metavar="NAME", help="Name of the user.  [QUEUE-ROLE]")
@click.option(
    "--no-eval",
    is_flag=True,
    help="Do not allow EVAL. Run ackq scripts load after each start of Redis.",
)
@click.option(
    "--redis-6",
    "redis_6",
    is_flag=True,
    help="Rules for Redis 6.2, which has no selectors. They are weaker: a user may run"
    " each of its commands on each of its keys.",
)
@click.option(
    "--pop-from",
    type=click.Choice(["right", "left"]),
    default="right",
    help="End of QUEUE's list that is popped.  [right]",
)
@click.option("--groups", is_flag=True, help="QUEUE has groups, or max_in_flight.")
@json_option
def acl(
    queue: str,
    roles: tuple[str, ...],
    kind: str,
    partitions: int | None,
    user: str | None,
    no_eval: bool,
    redis_6: bool,
    pop_from: PopFrom,
    groups: bool,
    as_json: bool,
) -> None:
    """Print ACL rules that grant each user of QUEUE little more than its role needs.

    Prints one redis-cli line for each ROLE, or for all roles. Each command is allowed only on the
    keys for which the role needs it. This requires selectors (Redis 7 or Valkey); --redis-6 prints
    rules without them.

    A role can still do harm: a consumer can discard messages, since taking a message removes it
    from the list.

    The users cannot log in until you set a password: ACL SETUSER NAME '>secret'. For a database
    other than 0, add +select.
    """
    if user and len(roles) != 1:
        raise click.UsageError("--user needs one ROLE")
    if partitions is not None and kind != "delay":
        raise click.UsageError("--partitions needs --kind delay")
    if redis_6:
        click.echo(f"ackq: {WEAKER}", err=True)
    for role in roles or roles_of(kind):
        named = user or f"{queue}-{role}"
        words = rules(
            queue,
            role,
            eval=not no_eval,
            selectors=not redis_6,
            pop_from=pop_from,
            kind=kind,
            partitions=partitions,
            grouped=groups,
        )
        if as_json:
            print_json({"user": named, "role": role, "rules": words})
        else:
            click.echo(" ".join(["ACL SETUSER", *map(_quoted, [named, *words])]))


def _quoted(word: str) -> str:
    """Return a word, quoted for redis-cli if necessary."""
    if word.isprintable() and not any(character in word for character in " \"'\\"):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
