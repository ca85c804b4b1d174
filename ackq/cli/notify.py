"""``ackq notify``."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

import click

from ackq.cli.options import examples, limit_option, time_field_option, url_option

if TYPE_CHECKING:
    from ackq.ops.attention.model import Limits

#: Consumers go on counting for this many times as long as the time between two readings.
WATCHED = 4.0


@click.command(
    epilog=examples(
        "ackq notify --webhook https://chat.example.com/hooks/T0B1",
        "ackq notify jobs --webhook https://chat.example.com/hooks/T0B1 --limit dead=100",
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
@limit_option
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
    limits: Limits,
    every: float,
    time_field: str | None,
) -> None:
    """Post what needs a person, as ackq attention shows it, to a webhook, until Ctrl-C.

    A trouble is posted when it begins, if its number has grown tenfold, every 4 hours, and when it
    has been over for half a minute. If the webhook fails, it is tried again for up to 6 hours. The
    JSON has a field "text", which chats show, and a list "alerts". The URL is never printed, since
    it may contain a secret.

    While it runs, consumers count what they do, as for ackq top. After a restart, troubles that go
    on are posted again.
    """
    from ackq.core.client import client_of
    from ackq.ops.attention.watch import Attention
    from ackq.ops.overview import Overview
    from ackq.ops.webhook import Posts, Webhook
    from ackq.worker.signals import stopping_on_signals

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    hook, posts, ended = Webhook(webhook, time.monotonic), Posts(), threading.Event()
    with (
        client_of(url) as client,
        stopping_on_signals(ended.set),
        Attention(client, limits) as attention,
        Overview(client, queues, window=every * WATCHED, time_field=time_field) as overview,
    ):
        threading.Thread(target=hook.run, args=(ended,), name="ackq-webhook", daemon=True).start()
        click.echo("watching; Ctrl-C ends it")
        while True:
            due = time.monotonic() + every
            if alerts := posts.of(attention.look(overview.read()), time.time()):
                hook.add(alerts)
            if ended.wait(max(0.0, due - time.monotonic())):
                return
