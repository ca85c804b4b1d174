"""``--causes``: dead letters counted by cause, in the commands of every kind of queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

import click

from ackq.cli.connection import print_json, print_table, short_time
from ackq.core.inspected import DeadLetter
from ackq.rsmq.values import RSMQDeadLetter

L = TypeVar("L", DeadLetter, RSMQDeadLetter)

#: How many dead letters a command lists by default.
NUMBER = 10

causes_option = click.option("--causes", is_flag=True, help="Count the dead letters by cause.")
dead_number_option = click.option(
    "-n",
    "--number",
    type=click.IntRange(0),
    help=f"Number of dead letters.  [{NUMBER}; all with --causes]",
)


def print_causes(letters: Iterable[L], number: int | None, as_json: bool) -> None:
    """Print the causes with their counts and newest dead letters, the most frequent first.

    Args:
        letters: oldest first. They are read as far as they are needed.
        number: how many to count; None: all.
        as_json: print JSON.
    """
    counts: Counter[str] = Counter()
    newest: dict[str, L] = {}
    for each in islice(letters, number):
        counts[each.cause] += 1
        newest[each.cause] = each
    rows = [(count, cause, newest[cause]) for cause, count in counts.most_common()]
    if as_json:
        for count, cause, letter in rows:
            print_json(
                {"count": count, "cause": cause, "newest": letter.entry, "died_at": letter.died_at}
            )
        return
    print_table(
        ("count", "cause", "newest", "died"),
        [(count, cause, each.entry, short_time(_seconds(each))) for count, cause, each in rows],
    )


def _seconds(letter: DeadLetter | RSMQDeadLetter) -> float:
    """Return when it died, in seconds; RSMQ's times are in ms."""
    return letter.died_at / 1000 if isinstance(letter, RSMQDeadLetter) else letter.died_at
