"""``ackq work``."""

from __future__ import annotations

import os
from typing import Any

import click

from ackq.cli.connection import MAX_BODY_BYTES, examples, seconds, url_option


@click.command(
    epilog=examples(
        "ackq work tasks:handle",
        "ackq work tasks:handle -q urgent -q jobs --processes 2 --concurrency 8 --drain",
    )
)
@click.argument("handler", metavar="MODULE:HANDLER")
@url_option
@click.option(
    "-q", "--queue", "queues", multiple=True, default=["jobs"], metavar="NAME",
    help="A queue; again for more: the first that has messages goes first. With a weight each,"
    " as in jobs=3, they take turns.  [jobs]",
)  # fmt: skip
@click.option("--processes", type=click.IntRange(1, 1000), default=1, help="How many.  [1]")
@click.option("--concurrency", type=click.IntRange(1, 10_000), default=16,
              help="Handlers at a time in each process.  [16]")  # fmt: skip
@click.option("--prefetch", type=click.IntRange(0, 1000), default=200,
              help="Messages that may wait in each process beyond those.  [200]")  # fmt: skip
@click.option("--lease", type=float, callback=seconds, metavar="SECONDS",
              help="After a process died its messages come back in this time.  [30]")  # fmt: skip
@click.option("--max-receives", type=click.IntRange(0), metavar="N",
              help="Deliveries after which a message is a dead letter; 0: no limit.  [25]"
              )  # fmt: skip
@click.option("--max-body", type=click.IntRange(1, MAX_BODY_BYTES), metavar="BYTES",
              help="Length above which a message is a dead letter, too large.  [1048576]"
              )  # fmt: skip
@click.option("--time-limit", type=float, callback=seconds, metavar="SECONDS",
              help="How long a handler may take.  [no limit]")  # fmt: skip
@click.option("--grace", type=float, callback=seconds, default=30.0, metavar="SECONDS",
              help="How long running handlers may go on after a stop.  [30]")  # fmt: skip
@click.option("--rate", metavar="COUNT/SECONDS",
              help="Messages that all workers of a queue may take.  [no limit]")  # fmt: skip
@click.option("--expiry-field", metavar="FIELD",
              help="Field of the body with the time, in seconds since the epoch, after which a"
              " message is a dead letter.")  # fmt: skip
@click.option("--schedules", metavar="MODULE:NAME",
              help="A list of ackq.worker.Schedule to push by the clock.")  # fmt: skip
@click.option("--health-file", type=click.Path(dir_okay=False), metavar="FILE",
              help="A file that exists while the workers are healthy.")  # fmt: skip
@click.option("--health-port", type=click.IntRange(0, 65535), metavar="PORT",
              help="Answer GET / and /healthz with 200 or 503 on this port.")  # fmt: skip
@click.option("--health-host", default="127.0.0.1", metavar="ADDRESS",
              help="Address of that port; 0.0.0.0 or :: for probes from outside.  [127.0.0.1]"
              )  # fmt: skip
@click.option("--stalled-after", type=float, callback=seconds, default=60.0, metavar="SECONDS",
              help="Not healthy when messages are ready and none was taken for this long.  [60]"
              )  # fmt: skip
@click.option("--drain", is_flag=True, help="Stop when the queues have nothing ready.")
@click.option("--reload", is_flag=True,
              help="Start anew when a Python file in this folder changes; for development."
              )  # fmt: skip
@click.option("--log-errors", type=click.Choice(["type", "text", "traceback"]), default="text",
              help="What of a handler's error is logged; its text may quote the message.  [text]"
              )  # fmt: skip
@click.option("--traceback", is_flag=True, help="Short for --log-errors traceback.")
@click.option("--log-json", is_flag=True, help="Log JSON lines.")
@click.option("-v", "--verbose", is_flag=True, help="Log every message that was handled.")
@click.pass_context
def work(
    ctx: click.Context, /, processes: int, reload: bool, traceback: bool, **settings: Any
) -> None:
    """Hand messages to MODULE:HANDLER, a function that takes a message, sync or async.

    Returning acks; raising gives the message back, to come again after a growing delay. SIGTERM
    or Ctrl-C stops taking and lets running handlers end; a second one leaves within seconds, and
    messages that were not done come back. A process that dies is replaced.

    If the module has a Queue of the same name, its lease, max receives and max body hold, unless
    an option here says otherwise.
    """
    # What works all day may take a moment to load; other commands should not.
    from ackq.worker.plan import Plan, set_up_logs
    from ackq.worker.processes import Processes
    from ackq.worker.reload import watching

    if traceback:
        settings["log_errors"] = "traceback"
    plan = Plan(processes=processes, **settings)
    set_up_logs(plan.log_json, plan.verbose)
    changed = watching(os.getcwd()) if reload else None
    ctx.exit(Processes(plan, changed).run())
