"""``ackq exporter``."""

from __future__ import annotations

import gc
import re
import threading
from contextlib import closing

import click

from ackq.cli.options import examples, time_field_option, url_option
from ackq.errors import AckqError

#: Where it listens by default.
LISTEN = "127.0.0.1:9465"
#: Objects that are made, and not freed, before the newest are searched for garbage.
GARBAGE = 100_000
_ENDPOINT = re.compile(r"(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:/\s]+)):(?P<port>\d{1,5})")


def _endpoint(ctx: click.Context, parameter: click.Parameter, text: str) -> tuple[str, int]:
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise click.BadParameter("write HOST:PORT, as in 127.0.0.1:9465 or [::1]:9465")
    return match["ipv6"] or match["host"], int(match["port"])


@click.command(epilog=examples("ackq exporter", "ackq exporter jobs mails --listen 127.0.0.1:9466"))
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option(
    "--listen",
    default=LISTEN,
    callback=_endpoint,
    metavar="HOST:PORT",
    help=f"Address and port; 0.0.0.0:PORT for remote scrapers.  [{LISTEN}]",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which the exporter is reached; requests that name others are"
    " refused. IP addresses and localhost need none; may be repeated.  [on loopback:"
    " none, else any]",
)
@time_field_option
@click.option(
    "--no-totals", is_flag=True, help="Change nothing in Redis, and report fewer counters."
)
@click.option(
    "--no-history",
    is_flag=True,
    help="Keep no figures of each minute in Redis. Workers and other pages may keep them.",
)
def exporter(
    queues: tuple[str, ...],
    url: str | None,
    listen: tuple[str, int],
    hosts: tuple[str, ...],
    time_field: str | None,
    no_totals: bool,
    no_history: bool,
) -> None:
    """Serve metrics of QUEUES, or of all queues found, to Prometheus and KEDA.

    /metrics has the metrics. /v1/queues/NAME has one queue's figures as JSON; its backlog is what
    an autoscaler needs. Queues of all kinds are found, on all nodes of a cluster, by the keys that
    consumers create; a list that no consumer has used yet must be named. If you name queues, only
    they are reported. Name RSMQ's queues NAMESPACE:QUEUE.

    Consumers count what they do while the exporter is scraped. There is no password and no TLS:
    anyone who can connect can read the names and figures. Needs pip install 'ackq[metrics]'.
    """
    import redis

    from ackq.core.client import client_of
    from ackq.worker.signals import stopping_on_signals

    try:
        from ackq.metrics.exporter import Exporter
    except ModuleNotFoundError as error:
        raise AckqError(str(error)) from error

    ended = threading.Event()
    with closing(client_of(url)) as client, stopping_on_signals(ended.set):
        try:
            opened = Exporter(
                client,
                queues,
                listen=listen,
                hosts=hosts,
                totals=not no_totals,
                history=not no_history,
                time_field=time_field,
            )
        except redis.exceptions.NoPermissionError as error:
            raise AckqError(f"{error}: name the queues, as in ackq exporter jobs") from error
        with opened:
            # Do not search what stays, the loaded code and the names of queues, for garbage at
            # each scrape, nor the figures of a scrape several times.
            gc.freeze()
            gc.set_threshold(GARBAGE)
            host, port = opened.address
            shown = f"[{host}]" if ":" in host else host
            click.echo(f"metrics at http://{shown}:{port}/metrics; Ctrl-C ends it")
            ended.wait()
