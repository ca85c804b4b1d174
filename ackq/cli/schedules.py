"""``ackq schedules``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click
import orjson

from ackq.cli import NOTHING, Group
from ackq.cli.options import examples, json_option, seconds_option
from ackq.cli.output import print_json
from ackq.cli.queues import on_queue
from ackq.cli.tables import print_table
from ackq.cli.times import short_time
from ackq.queue.client import Queue
from ackq.queue.schedules import put as put_operation


@click.group(cls=Group)
def schedules() -> None:
    """Put, list, pause or remove the schedules that are stored for a queue.

    Workers that take from the queue push a message at each tick, once however many there are. They
    notice a change within 5 seconds.
    """


@schedules.command("list", epilog=examples("ackq schedules list jobs"))
@on_queue
@json_option
def list_(queue: str, url: str | None, as_json: bool) -> None:
    """List the stored schedules of QUEUE, with their last and next ticks.

    Schedules in the code of workers, such as those of @tasks.schedule, are not stored, so they are
    not listed.
    """
    with Queue.from_url(url, queue) as opened:
        stored = opened.schedules.list()
    if as_json:
        for schedule in stored:
            print_json({**asdict(schedule)})
        return
    columns = ("name", "next", "last", "missed", "every", "zone", "message")
    print_table(columns, [_row(schedule) for schedule in stored])
    click.echo("ackq: schedules in the code of workers are not listed", err=True)


def _row(schedule: Any) -> tuple[object, ...]:
    every = schedule.cron if schedule.every is None else f"{schedule.every:g} s"
    due = "paused" if schedule.paused else short_time(schedule.next)
    message = orjson.dumps(schedule.message).decode()
    last, zone = short_time(schedule.last), schedule.zone
    return schedule.name, due, last, schedule.missed, every, zone, message


@schedules.command(
    epilog=examples(
        """ackq schedules put jobs report '{"task": "report"}' --cron "0 9 * * 1" --zone Japan""",
        """ackq schedules put jobs cleanup '{"task": "cleanup"}' --every 3600 --catch-up last""",
    )
)
@on_queue
@click.argument("name")
@click.argument("json")
@seconds_option(
    "--every",
    help="Time from tick to tick, counted from the epoch. Or give --cron.",
)
@click.option(
    "--cron",
    metavar="FIELDS",
    help="Five fields of cron, six if the first is seconds, or a name: @daily.",
)
@click.option("--zone", default="UTC", metavar="ZONE", help="Time zone of --cron.  [UTC]")
@click.option(
    "--catch-up",
    type=click.Choice(["none", "last"]),
    default="none",
    help="Missed ticks to push when a worker starts.  [none]",
)
@click.option(
    "--unique",
    type=click.Choice(["done", "taken"]),
    help="Push nothing while a message with the same id is queued; see ackq push.",
)
def put(queue: str, url: str | None, name: str, json: str, **settings: Any) -> None:
    """Store or replace schedule NAME of QUEUE: push JSON at each tick.

    If it is stored already, nothing changes. A paused schedule stays paused.
    """
    try:
        message = orjson.loads(json)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="JSON") from error
    with Queue.from_url(url, queue) as opened:
        status = opened.execute(put_operation, name, message, **settings)
        stored = next((one for one in opened.schedules.list() if one.name == name), None)
    if stored is None:
        then = "and removed by another client"
    elif stored.paused:
        then = "still paused: to let it tick, run ackq schedules resume"
    else:
        then = f"next at {short_time(stored.next)}"
    click.echo(f"{name} {status}, {then}")


def _changes(verb: str, done: str, help: str) -> click.Command:
    @click.command(verb, help=help, epilog=examples(f"ackq schedules {verb} jobs report"))
    @on_queue
    @click.argument("name")
    def change(queue: str, url: str | None, name: str) -> None:
        with Queue.from_url(url, queue) as opened:
            existed = getattr(opened.schedules, verb)(name)
        if not existed:
            click.echo(f"ackq: {queue} has no schedule {name!r}", err=True)
            sys.exit(NOTHING)
        click.echo(f"{name} {done}")

    return change


schedules.add_command(
    _changes("pause", "paused", "Push nothing for schedule NAME of QUEUE until it is resumed.")
)
schedules.add_command(
    _changes("resume", "resumed", "Let schedule NAME of QUEUE tick again, from now on.")
)
schedules.add_command(_changes("remove", "removed", "Remove schedule NAME of QUEUE."))
