"""``ackq demo``."""

from __future__ import annotations

import platform
import signal
from typing import Any, BinaryIO

import click

from ackq.cli import NOTHING
from ackq.cli.options import examples, url_option


@click.command(epilog=examples("ackq demo --seconds 1 --input orders.ndjson"))
@url_option
@click.option(
    "--input",
    "source",
    type=click.File("rb"),
    help="Hash each line of FILE (NDJSON, or anything); - is stdin.",
)
@click.option(
    "--workers", type=click.IntRange(3, 64), default=4, help="Number of worker processes.  [4]"
)
@click.option(
    "--producers", type=click.IntRange(1, 64), default=3, help="Number of producers.  [3]"
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 86400),
    default=13.0,
    help="Duration of the work, without the faults.  [13]",
)
@click.pass_context
def demo(
    ctx: click.Context,
    url: str | None,
    source: BinaryIO | None,
    workers: int,
    producers: int,
    seconds: float,
) -> None:
    """Watch ackq survive a killed and a frozen worker, in about 20 seconds.

    Producers push every file of Python's standard library (or every line of --input) with a bare
    LPUSH; workers hash them. One worker is killed with messages in flight. Another is frozen until
    its lease has ended, then acks too late. Finally the demo checks that no message was lost, each
    was acked exactly once, and every digest is right. Exit code 1 if a check fails.

    Without --url it starts a temporary Redis; with --url it uses its own queue and deletes it.
    """
    from ackq.demo import Plan, run
    from ackq.demo.display import Display
    from ackq.demo.source import lines_of, standard_library

    if source is None:
        bodies, job = standard_library(), "file"
        title = f"the files of Python {platform.python_version()}'s standard library"
    else:
        bodies, job = lines_of(source.read()), "line"
        title = f"the lines of {'stdin' if source.name in ('-', '<stdin>') else source.name}"
    plan = Plan(bodies, title, job, url, workers, producers, seconds)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    if not run(plan, Display()):
        ctx.exit(NOTHING)


def _interrupt(*_: Any) -> None:
    """Handle a signal like Ctrl-C, so that everything that was started ends."""
    raise KeyboardInterrupt
