"""``ackq move``."""

from __future__ import annotations

import click

from ackq.cli.options import examples, seconds_option
from ackq.cli.output import print_count
from ackq.cli.progress import progress
from ackq.cli.queues import on_queue_end, open_any
from ackq.config import PopFrom


@click.command(
    epilog=examples("ackq move jobs jobs-later -n 100", "ackq move jobs jobs-test --copy")
)
@on_queue_end
@click.argument("destination")
@click.option(
    "--to",
    "to_url",
    envvar="ACKQ_TO_REDIS_URL",
    metavar="URL",
    help="URL of DESTINATION's Redis.  [env: ACKQ_TO_REDIS_URL; that of QUEUE]",
)
@click.option(
    "--to-pop-from",
    type=click.Choice(["right", "left"]),
    help="The same for DESTINATION's list.  [as recorded, or right]",
)
@click.option("-n", "--number", type=click.IntRange(0), help="Maximum number.  [all ready now]")
@click.option(
    "--copy", "copying", is_flag=True, help="Leave the messages in QUEUE, which must be idle."
)
@click.option(
    "--skip",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="With --copy: skip the first N, copied before an error.  [0]",
)
@seconds_option(
    "--lease",
    default=60.0,
    help="Time until messages are redelivered after a crash.  [60]",
)
def move(
    queue: str,
    url: str | None,
    destination: str,
    to_url: str | None,
    to_pop_from: PopFrom | None,
    number: int | None,
    copying: bool,
    skip: int,
    lease: float,
) -> None:
    """Move ready messages from QUEUE to DESTINATION, here or on another server.

    Messages are taken under a lease, pushed to DESTINATION, then acked, 500 at a time. A crash
    loses none, but may leave up to 500 in both queues; run the command again to go on. Bodies do
    not change; receive counts start again. Prints the number that arrived. In-flight, delayed and
    dead messages are not moved or copied; their counts are printed on stderr.

    Either queue may be sharded. A sharded QUEUE is moved shard by shard; its messages have no order
    across shards.
    """
    from ackq.ops import move as mover

    if skip and not copying:
        raise click.UsageError("--skip is for --copy; a move goes on by itself")
    to_url = to_url or url
    with (
        open_any(url, queue, "push", visibility_timeout=lease) as opened,
        open_any(to_url, destination, "push", pop_from=to_pop_from) as opened_target,
    ):
        source, target, lists = opened.client, opened_target.client, opened.parts()
        for given in (source, *lists):
            mover.check_apart(given, target)
        before = source.stats()
        total = number if number is not None else before.ready
        with progress("copied" if copying else "moved", total, again(copying), skip) as on_step:
            if copying:
                count = mover.copy_all(lists, target, number, skip=skip, on_step=on_step)
            else:
                count = mover.move_all(lists, target, number, on_step=on_step)
        left = before if copying else source.stats()
    print_count(count, "message", "copied" if copying else "moved")
    others = f"{left.in_flight:,} in flight, {left.delayed:,} delayed, {left.dead:,} dead"
    if copying and (left.in_flight or left.delayed or left.dead):
        click.echo(f"ackq: not copied from {queue}: {others}", err=True)
    elif not copying and (left.paused or left.in_flight or left.delayed or left.dead):
        paused = "the queue is paused; " if left.paused else ""
        click.echo(f"ackq: {paused}left in {queue}: {left.ready:,} ready, {others}", err=True)


def again(copying: bool) -> str:
    """Return the advice to print after an error."""
    return "go on with --skip {count}" if copying else "run it again to go on"
