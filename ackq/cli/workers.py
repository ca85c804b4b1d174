"""``ackq workers``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from redis.exceptions import NoPermissionError

from ackq.cli import NOTHING, Group
from ackq.cli.options import examples, json_option, seconds_option, url_option
from ackq.cli.output import print_json
from ackq.cli.tables import print_table
from ackq.cli.times import short_time
from ackq.errors import AckqError
from ackq.escaping import printable
from ackq.ops.figures import span

if TYPE_CHECKING:
    from ackq.ops.worker_info import WorkerInfo
    from ackq.queue.registry import Order

#: Seconds between two looks at workers that have an order.
LOOK_INTERVAL = 0.1

queues_option = click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Only workers of this queue; repeat for more.  [all queues with workers]",
)
names_argument = click.argument("names", nargs=-1, required=True, metavar="NAME...")
wait_option = seconds_option(
    "--timeout",
    "--wait",
    "wait",
    help="Wait this long until the order is carried out.  [do not wait]",
)


@click.group(
    cls=Group,
    invoke_without_command=True,
    epilog=examples("ackq workers", "ackq workers -q jobs --json"),
)
@url_option
@queues_option
@json_option
@click.pass_context
def workers(ctx: click.Context, url: str | None, queues: tuple[str, ...], as_json: bool) -> None:
    """List the workers of all queues, or give them orders.

    Without a command, print each worker's id, name, state, queues, running handlers, start, last
    heartbeat and version. A worker that ended is no longer listed; one that died, or that is
    frozen, is "late" after two heartbeat intervals and no longer listed after six (30 s).
    """
    if ctx.invoked_subcommand is not None:
        given = (param.name for param in ctx.command.params)
        if any(ctx.get_parameter_source(option) == ParameterSource.COMMANDLINE for option in given):
            raise click.UsageError("write the options after the command")
        return
    listed = _workers(url, queues)
    if as_json:
        for worker in listed:
            print_json(_fields(worker))
        return
    print_table(
        ("id", "name", "state", "queues", "busy", "since", "seen", "version"),
        [
            (
                worker.id,
                worker.name if worker.name != worker.id else None,
                _state(worker),
                ",".join(worker.queues),
                f"{worker.busy}/{worker.concurrency}",
                short_time(worker.started_at),
                short_time(worker.seen_at),
                worker.version,
            )
            for worker in listed
        ],
    )


@workers.command(epilog=examples("ackq workers busy", "ackq workers busy -q jobs --json"))
@url_option
@queues_option
@json_option
def busy(url: str | None, queues: tuple[str, ...], as_json: bool) -> None:
    """Print the messages that handlers are working on, the longest first.

    As of the last heartbeat of each worker; at most 50 messages of a worker in each queue.
    """
    running = [(message, worker) for worker in _workers(url, queues) for message in worker.running]
    running.sort(key=lambda pair: pair[0].since)
    if as_json:
        for message, worker in running:
            print_json({**asdict(message), "worker": worker.name, "worker_id": worker.id})
    else:
        print_table(
            ("queue", "id", "runs for", "worker"),
            [
                (
                    message.queue,
                    message.message_id,
                    _age(worker.seen_at - message.since),
                    worker.name,
                )
                for message, worker in running
            ],
        )


@workers.command(epilog=examples("ackq workers quiet mailer"))
@names_argument
@url_option
@queues_option
@wait_option
@click.pass_context
def quiet(ctx: click.Context, /, names: tuple[str, ...], url: str | None, **options: Any) -> None:
    """Let workers take no more messages and finish those they have.

    NAME is the id of a worker, or a name; all workers of that name get the order. Each notices it
    at its next heartbeat, usually within 5 s. Its state is then "quieting", and "quiet" when its
    last handler has ended. Its schedules go on. A process that replaces it takes messages.

    Prints the ids of the workers. Exit code 1 if no worker has the name, or if one has not carried
    out the order when --wait is over.
    """
    _order(ctx, "quiet", names, url, **options)


@workers.command(epilog=examples("ackq workers resume mailer"))
@names_argument
@url_option
@queues_option
@wait_option
@click.pass_context
def resume(ctx: click.Context, /, names: tuple[str, ...], url: str | None, **options: Any) -> None:
    """Let quiet workers take messages again. For NAME and exit codes, see ackq workers quiet."""
    _order(ctx, "resume", names, url, **options)


@workers.command(epilog=examples("ackq workers stop mailer"))
@names_argument
@url_option
@queues_option
@wait_option
@click.pass_context
def stop(ctx: click.Context, /, names: tuple[str, ...], url: str | None, **options: Any) -> None:
    """Stop workers, as SIGTERM does.

    Running handlers have their grace to finish.

    ackq work does not replace a process that was stopped in this way, and ends when all its
    processes have ended. A supervisor outside may start it again. For NAME and exit codes, see
    ackq workers quiet.
    """
    _order(ctx, "stop", names, url, **options)


def _order(
    ctx: click.Context,
    order: Order,
    names: Sequence[str],
    url: str | None,
    queues: Sequence[str],
    wait: float | None,
) -> None:
    from ackq.core.client import client_of
    from ackq.ops.worker_info import DONE
    from ackq.ops.workers import send_order, workers

    with client_of(url) as client, _searching(queues):
        listed = [entry for entry in workers(client, queues) if {entry.name, entry.id} & {*names}]
        known = {entry.name for entry in listed} | {entry.id for entry in listed}
        for name in dict.fromkeys(names):
            if name not in known:
                click.echo(f"ackq: there is no worker {printable(name)!r}", err=True)
        ordered = send_order(client, order, listed)
        for worker in ordered:
            click.echo(printable(worker))
        until = time.monotonic() + (wait or 0.0)
        watched = sorted({entry.found_in[0] for entry in listed})
        undone = set(ordered) if wait is not None else set()
        while undone:
            now = {entry.id: entry for entry in workers(client, watched)}
            undone = {id for id in undone if not DONE[order](now.get(id))}
            if time.monotonic() >= until:
                break
            time.sleep(LOOK_INTERVAL if undone else 0.0)
    for worker in sorted(undone):
        click.echo(f"ackq: worker {printable(worker)} has not carried out the order yet", err=True)
    if undone or not {*names} <= known:
        ctx.exit(NOTHING)


def _workers(url: str | None, queues: Sequence[str]) -> list[WorkerInfo]:
    from ackq.core.client import client_of
    from ackq.ops.workers import workers

    with client_of(url) as client, _searching(queues):
        return workers(client, queues)


@contextmanager
def _searching(queues: Sequence[str]) -> Iterator[None]:
    """Add advice to the error for users who may read queues but not search for them."""
    try:
        yield
    except NoPermissionError as error:
        if queues:
            raise
        raise AckqError(f"{error}: name the queues, as in ackq workers -q jobs") from error


def _fields(worker: WorkerInfo) -> dict[str, Any]:
    fields = asdict(worker)
    del fields["found_in"]
    return fields


def _state(worker: WorkerInfo) -> str:
    """Return the state of a worker, with an order that it has not received yet."""
    words = [worker.state, *(["late"] if worker.late else [])]
    return ", ".join([*words, *([f"{worker.order} ordered"] if worker.order else [])])


def _age(passed: float) -> str | float:
    return span(passed) if sys.stdout.isatty() else round(passed, 1)
