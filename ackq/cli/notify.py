"""``ackq notify``."""

from __future__ import annotations

import logging
import threading
import time

import click

from ackq.cli.options import examples, seconds_option, time_field_option, url_option

#: Consumers go on counting for this many times as long as the time between two readings.
WATCHED = 4.0


@click.command(
    epilog=examples(
        "ackq notify --webhook https://chat.example.com/hooks/T0B1",
        "ackq notify jobs --webhook https://chat.example.com/hooks/T0B1 --dead 100 --oldest 60",
    )
)
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option(
    "--webhook",
    required=True,
    metavar="URL",
    envvar="ACKQ_WEBHOOK",
    help="URL to which alerts are posted as JSON.  [ACKQ_WEBHOOK]",
)
@click.option(
    "--dead",
    type=click.IntRange(0),
    default=1,
    metavar="NUMBER",
    help="Alert at this many new dead letters within 15 minutes; 0: never.  [1]",
)
@seconds_option(
    "--oldest",
    default=600.0,
    help="Alert if the oldest message has waited for this long; 0: never.  [600]",
)
@seconds_option(
    "--no-worker",
    default=600.0,
    help="Alert if a queue has had messages for this long, but neither a worker nor any other"
    " consumer; 0: never.  [600]",
)
@seconds_option(
    "--unreadable",
    default=120.0,
    help="Alert if a server cannot be read for this long; 0: never.  [120]",
)
@click.option(
    "--every",
    type=click.FloatRange(0.1, 900),
    default=30.0,
    metavar="SECONDS",
    help="Time between two readings.  [30]",
)
@time_field_option
def notify(
    queues: tuple[str, ...],
    url: str | None,
    webhook: str,
    dead: int,
    oldest: float,
    no_worker: float,
    unreadable: float,
    every: float,
    time_field: str | None,
) -> None:
    """Post alerts about QUEUES, or about all queues found, to a webhook, until Ctrl-C.

    An alert is posted when it begins, again every 4 hours, and when it ends. If the webhook fails,
    it is tried again for up to 6 hours. The JSON has a field "text", which chats show, and a list
    "alerts". The URL is never printed, since it may contain a secret.

    While it runs, consumers count what they do, as for ackq top. After a restart, it
    does not know of earlier alerts, and does not count old dead letters as new.
    """
    from ackq.core.client import client_of
    from ackq.ops.alerts import Alerts, Rules
    from ackq.ops.overview import Overview
    from ackq.ops.webhook import Webhook
    from ackq.worker.signals import stopping_on_signals

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    rules = Rules(dead or None, oldest or None, no_worker or None, unreadable or None)
    hook = Webhook(webhook, time.monotonic)
    alerts, ended = Alerts(rules), threading.Event()
    window = every * WATCHED
    with (
        client_of(url) as client,
        stopping_on_signals(ended.set),
        Overview(client, queues, window=window, time_field=time_field) as overview,
    ):
        click.echo("watching; Ctrl-C ends it")
        due = 0.0
        while not ended.is_set():
            if (now := time.monotonic()) >= due:
                due = now + every
                if changes := alerts.look(overview.read(), time.time()):
                    hook.add(changes)
            hook.send()
            rest, retry = due - time.monotonic(), hook.wait()
            ended.wait(max(0.0, rest if retry is None else min(rest, retry)))
