"""``ackq pipeline run``, and what all commands of a pipeline begin with."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack, closing
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ackq.cli import INTERRUPTED
from ackq.cli.options import examples, json_option, url_option
from ackq.errors import ConfigurationError

if TYPE_CHECKING:
    from ackq.spark.pipeline import Pipeline, Progress

config_argument = click.argument("config", type=click.Path(dir_okay=False))


@click.command(epilog=examples("ackq pipeline run cars.toml --once"))
@config_argument
@url_option
@click.option("--once", is_flag=True, help="Process the messages that are ready now, then exit.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve /metrics for Prometheus and /healthz on this port; needs the extra ackq[metrics].",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address of this port; 0.0.0.0 or :: for remote scrapers.  [127.0.0.1]",
)
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    config: str,
    url: str | None,
    once: bool,
    metrics_port: int | None,
    metrics_host: str,
    as_json: bool,
) -> None:
    """Run the pipeline of CONFIG until SIGTERM or Ctrl-C.

    It finishes the current micro-batch first; a second signal aborts it. In both cases no message
    is lost, and the next run continues from there. Progress is shown live in a terminal, otherwise
    as a line for each batch (JSON with --json).

    Exit codes: 0 if stopped or done (--once), 3 if CONFIG is wrong or the query failed, 4 if Redis
    cannot be reached, 5 if another process took over its group of claims, 130 if aborted by a
    second signal.
    """
    made = make(config)
    point_at_source(made, url)
    from ackq.spark.pipeline.display import display
    from ackq.spark.pipeline.metrics_port import MetricsPort
    from ackq.worker.signals import stopping_on_signals

    with ExitStack() as stack:
        shows = [stack.enter_context(display(made.config, as_json))]
        if metrics_port is not None:
            port = MetricsPort(made.config.name, (metrics_host, metrics_port))
            shows.append(stack.enter_context(closing(port)).show)
        stack.enter_context(stopping_on_signals(made.stop))

        def show_all(progress: Progress) -> None:
            for show in shows:
                show(progress)

        made.run(once=once, on_progress=show_all)
    if made.stops > 1:
        ctx.exit(INTERRUPTED)


def make(config: str) -> Pipeline:
    """Return the pipeline of a file."""
    refuse_without_spark()
    from ackq.spark.pipeline import Pipeline

    return Pipeline(config)


def refuse_without_spark() -> None:
    """Raise an error that says what to install if Spark is missing."""
    # PySpark's version warnings concern whoever installs it, not users of the command.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise ConfigurationError("Spark is missing: pip install 'ackq[spark]'")


def point_at_source(made: Pipeline, url: str | None) -> None:
    """Set ACKQ_REDIS_URL, unless the source has an option ``url``."""
    if url is not None or "url" not in made.config.source.options:
        point_at(url)


def point_at(url: str | None) -> None:
    """Set ACKQ_REDIS_URL for Spark's processes. Without a URL, use the embedded server's."""
    if url is None:
        from ackq.embedded import shared_url

        url = shared_url()
    os.environ["ACKQ_REDIS_URL"] = url
