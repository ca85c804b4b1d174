"""``ackq bench``."""

from __future__ import annotations

import signal
from typing import Any

import click

from ackq.cli.options import examples, json_option, url_option
from ackq.cli.output import print_json

#: Maximum bytes of a batch: the limit of one pop.
MAX_BYTES = 8 * 1024 * 1024


@click.command(
    epilog=examples("ackq bench --seconds 1", "ackq bench --seconds 1 --batch 20 --json")
)
@url_option
@click.option(
    "-n", "--batch", type=click.IntRange(1, 1000), default=100, help="Messages per batch.  [100]"
)
@click.option(
    "--size", type=click.IntRange(64, 1024 * 1024), default=100, help="Bytes per body.  [100]"
)
@click.option(
    "--seconds", type=click.FloatRange(0.1, 3600), default=10.0, help="Approximate duration.  [10]"
)
@json_option
def bench(url: str | None, batch: int, size: int, seconds: float, as_json: bool) -> None:
    """Measure push, pop and ack on a Redis: ackq, a bare list and a stream in turn.

    Runs one message at a time and by --batch, on one connection. Prints messages per second, cycle
    time and server CPU per message: the median, minimum and maximum over all rounds. The ratios
    are the most reliable figures: a disturbance affects all three in the same round.

    It uses its own keys and deletes them. It keeps the server busy, so avoid production servers.
    Server CPU includes the load of other clients. Without --url it measures ackq's private Redis,
    which writes everything to disk.
    """
    from ackq.bench.small import run
    from ackq.bench.tables import text_of

    if batch * size > MAX_BYTES:
        raise click.BadParameter(f"a batch holds at most {MAX_BYTES:,} bytes")
    if url is None:
        from ackq.embedded import shared_url

        url = shared_url()
    signal.signal(signal.SIGTERM, _interrupt)
    result = run(url, batch=batch, size=size, seconds=seconds, say=_say)
    if as_json:
        from ackq.bench.figures import to_json

        print_json(to_json([result]))
        return
    from ackq.bench.circumstances import describe

    click.echo(f"{describe(result.facts)}\n{text_of(result)}")


def _say(text: str) -> None:
    click.echo(f"ackq: {text}", err=True)


def _interrupt(*_: Any) -> None:
    """Handle SIGTERM like Ctrl-C, so that all created keys are deleted."""
    raise KeyboardInterrupt
