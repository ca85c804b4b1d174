"""``ackq bench``."""

from __future__ import annotations

import signal
from typing import Any

import click

from ackq.cli.connection import examples, json_option, print_json, url_option

#: Bytes of one batch: one call of pop moves no more.
MOST_BYTES = 8 * 1024 * 1024


@click.command(
    epilog=examples("ackq bench --seconds 1", "ackq bench --seconds 1 --batch 20 --json")
)
@url_option
@click.option(
    "-n", "--batch", type=click.IntRange(1, 1000), default=100, help="Messages of a batch.  [100]"
)
@click.option(
    "--size", type=click.IntRange(64, 1024 * 1024), default=100, help="Bytes of a body.  [100]"
)
@click.option(
    "--seconds", type=click.FloatRange(0.1, 3600), default=10.0, help="How long, about.  [10]"
)
@json_option
def bench(url: str | None, batch: int, size: int, seconds: float, as_json: bool) -> None:
    """Measure push, pop and ack on a Redis: ackq, a bare list and a stream in turns.

    One by one and by --batch, one connection: messages a second, the time of a cycle, and the
    server's CPU for each message, as medians of the rounds with the least and the greatest. The
    ratios are the most reliable: what disturbs one round disturbs all who play in it.

    It uses keys of its own and deletes them; the server is busy meanwhile, so a production server
    will notice. The server's CPU includes what others make it do. Without --url the Redis of your
    own is measured, which writes everything to disk.
    """
    from ackq.bench.small import run
    from ackq.bench.tables import text_of

    if batch * size > MOST_BYTES:
        raise click.BadParameter(f"a batch holds at most {MOST_BYTES:,} bytes")
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
    """End as Ctrl-C does: with every key that was made."""
    raise KeyboardInterrupt
