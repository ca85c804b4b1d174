"""``ackq work``."""

from __future__ import annotations

import os
import threading
from typing import Any

import click

from ackq.cli.options import (
    examples,
    max_body_option,
    seconds_option,
    time_field_option,
    url_option,
)
from ackq.errors import ConfigurationError


@click.command(
    epilog=examples(
        "ackq work tasks:handle",
        "ackq work images:tasks --concurrency 8 --drain",
        "ackq work tasks:handle -q urgent -q jobs --processes 2 --concurrency 8 --drain",
    )
)
@click.argument("handler", metavar="MODULE:HANDLER")
@url_option
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Queue to consume; repeat for more, highest priority first. With weights, as in jobs=3,"
    " they take turns.  [those of the tasks, the only queue in the module, or jobs]",
)
@click.option("--processes", type=click.IntRange(1, 1000), default=1, help="Processes.  [1]")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=16,
    help="Handlers that run at the same time in each process.  [16]",
)
@click.option(
    "--prefetch",
    type=click.IntRange(0, 1000),
    default=200,
    help="Additional messages that each process may buffer.  [200]",
)
@seconds_option(
    "--lease",
    help="Time until the messages of a dead process are redelivered.  [30]",
)
@click.option(
    "--pop-from",
    type=click.Choice(["right", "left"]),
    help="End of the queues' lists that is popped: left if producers use RPUSH.  [right]",
)
@time_field_option
@click.option(
    "--max-receives",
    type=click.IntRange(0),
    metavar="N",
    help="Deliveries before a message becomes a dead letter; 0: no limit.  [25]",
)
@max_body_option("A longer message becomes a dead letter.  [1048576]")
@seconds_option(
    "--time-limit",
    help="Maximum run time of a handler.  [no limit]",
)
@seconds_option(
    "--kill-after",
    help="Kill a process whose handler still runs this long after the time limit.  [never]",
)
@click.option(
    "--max-messages",
    type=click.IntRange(1),
    metavar="N",
    help="Replace a process after this many messages; it handles no more.  [never]",
)
@click.option(
    "--max-memory",
    type=click.IntRange(1),
    metavar="MIB",
    help="Replace a process that uses more memory, when it is idle.  [never]",
)
@seconds_option(
    "--grace",
    default=30.0,
    help="Time that running handlers get to finish after a stop.  [30]",
)
@click.option(
    "--rate",
    metavar="COUNT/SECONDS",
    help="Rate limit for each queue, shared by all its workers.  [no limit]",
)
@click.option(
    "--expiry-field",
    metavar="FIELD",
    help="Field of the body with an expiry time, in seconds since the epoch. An expired"
    " message becomes a dead letter.",
)
@click.option(
    "--schedules",
    metavar="MODULE:NAME",
    help="A list of ackq.worker.Schedule: messages to push on a schedule.",
)
@click.option(
    "--health-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="File that exists while the workers are healthy.",
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Answer GET / and /healthz with 200 or 503 on this port, and"
    " /metrics with the figures of all processes.",
)
@click.option(
    "--health-host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address of the health port; 0.0.0.0 or :: for remote probes.  [127.0.0.1]",
)
@seconds_option(
    "--stalled-after",
    default=60.0,
    help="Unhealthy if messages are ready and none was taken for this long.  [60]",
)
@click.option(
    "--name", metavar="NAME", help="Name of the workers in ackq workers.  [host:pid:random]"
)
@seconds_option(
    "--heartbeat",
    default=5.0,
    help="Time between two reports to ackq workers; 0: do not report.  [5]",
)
@click.option(
    "--no-history",
    "history",
    flag_value=False,
    default=True,
    type=bool,
    help="Keep no figures of each minute in Redis, for the curves of ackq web.",
)
@click.option("--drain", is_flag=True, help="Stop when no messages are ready.")
@click.option(
    "--reload",
    is_flag=True,
    help="Restart when a Python file in this folder changes; for development.",
)
@click.option(
    "--log-errors",
    type=click.Choice(["type", "text", "traceback"]),
    default="text",
    help="Detail to log of a handler's error; its text may quote the message.  [text]",
)
@click.option(
    "--record-errors",
    type=click.Choice(["none", "type", "text", "traceback"]),
    help="Detail to store of a handler's error, for ackq dead and ackq peek.  [text]",
)
@click.option("--traceback", is_flag=True, help="Short for --log-errors traceback.")
@click.option("--log-json", is_flag=True, help="Log JSON lines.")
@click.option("-v", "--verbose", is_flag=True, help="Log every handled message.")
@click.pass_context
def work(
    ctx: click.Context, /, processes: int, reload: bool, traceback: bool, **settings: Any
) -> None:
    """Run workers that call MODULE:HANDLER, a sync or async function, for each message.

    If you name MODULE:TASKS, an object of ackq.tasks, workers call its tasks. Without -q, they take
    from all queues of the tasks, and without --url, from the server of the tasks.

    If the function returns, the message is acked; if it raises, the message is retried with
    backoff. On SIGTERM, SIGHUP or Ctrl-C, workers take no more messages and let running handlers
    finish; on a second signal, or SIGQUIT, they exit within seconds, and unfinished messages are
    redelivered. A process that dies is replaced.

    If the module has a Queue of the same name, its lease, end, time field, max receives, max body
    and record errors are the defaults of these options. Without -q, the only Queue in the module is
    consumed. If there are several, they are listed and nothing starts.
    """
    # A worker may take a moment to load its modules; other commands should not.
    from ackq.process.children import Processes
    from ackq.process.plan import Plan, set_up_logs

    if traceback:
        settings["log_errors"] = "traceback"
    plan = Plan(processes=processes, **settings)
    set_up_logs(plan.log_json, plan.verbose)
    changed = _watch(os.getcwd()) if reload else None
    ctx.exit(Processes(plan, changed).run())


def _watch(folder: str) -> threading.Event:
    """Return an event that is set whenever a Python file under ``folder`` changes.

    Raises:
        ConfigurationError: watchfiles is not installed.
    """
    try:
        from watchfiles import PythonFilter, watch
    except ImportError as error:
        raise ConfigurationError("--reload needs watchfiles: pip install 'ackq[reload]'") from error
    changed = threading.Event()

    def run() -> None:
        for _ in watch(folder, watch_filter=PythonFilter(), raise_interrupt=False):
            changed.set()

    threading.Thread(target=run, daemon=True).start()
    return changed
