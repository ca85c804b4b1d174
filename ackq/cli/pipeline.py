"""``ackq pipeline``: process a queue or a topic with Spark."""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ackq.cli import INTERRUPTED, Group
from ackq.cli.connection import examples, json_option, print_json, url_option
from ackq.errors import ConfigurationError

if TYPE_CHECKING:
    from ackq.spark.pipeline import Pipeline

config_argument = click.argument("config", type=click.Path(dir_okay=False))


@click.group(cls=Group)
def pipeline() -> None:
    """Process a queue or topic with Spark: check, transform, write.

    Requires the extra ackq[spark]. CONFIG is described in docs/pipeline.md.
    """


@pipeline.command(epilog=examples("ackq pipeline run cars.toml --once"))
@config_argument
@url_option
@click.option("--once", is_flag=True,
              help="Process the messages that are ready now, then exit.")  # fmt: skip
@json_option
@click.pass_context
def run(ctx: click.Context, config: str, url: str | None, once: bool, as_json: bool) -> None:
    """Run the pipeline of CONFIG until SIGTERM or Ctrl-C.

    It finishes the current micro-batch first; a second signal aborts it. In both cases no message
    is lost, and the next run continues from there. Progress is shown live in a terminal, otherwise
    as a line for each batch (JSON with --json).

    Exit codes: 0 if stopped or done (--once), 3 if CONFIG is wrong or the query failed, 4 if Redis
    cannot be reached, 5 if another process took over its group of claims, 130 if aborted by a
    second signal.
    """
    made = _made(config)
    from ackq.spark.pipeline.display import display
    from ackq.worker.signals import stopping_on_signals

    if url is not None or "url" not in made.config.source.options:
        _point_at(url)
    with display(made.config, as_json) as show, stopping_on_signals(made.stop):
        made.run(once=once, on_progress=show)
    if made.stops > 1:
        ctx.exit(INTERRUPTED)


@pipeline.command(epilog=examples("ackq pipeline check cars.toml"))
@config_argument
@click.option("--spark", is_flag=True,
              help="Start Spark to check the sink's format, the schema, the checks and the SQL."
              )  # fmt: skip
def check(config: str, spark: bool) -> None:
    """Check CONFIG without running it. Prints nothing if it is valid.

    Without --spark the check is fast. It covers keys, values, names, options, and whether the
    transform's function exists. Only Spark can tell whether the sink's format is available; it may
    need a package. If something is wrong, prints one line with the key and a fix; exit code 3.
    """
    made = _made(config)
    if spark:
        made.check()


@pipeline.command(epilog=examples("ackq pipeline report --html queues.html --parquet reports",
                                  "ackq pipeline report jobs --json"))  # fmt: skip
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option("--html", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write a page with charts; needs the extra ackq[report].")  # fmt: skip
@click.option("--parquet", metavar="FOLDER",
              help="Add files with one row per message to FOLDER.")  # fmt: skip
@json_option
def report(
    queues: tuple[str, ...], url: str | None, html: str | None, parquet: str | None, as_json: bool
) -> None:
    """Report the dead and in-flight messages of QUEUES, or of all queues.

    By reason, age, queue and time. Takes and changes no messages, and shows no bodies. Exit
    codes: 2 if none of --html, --parquet and --json is given, 3 if an extra is missing or an error
    occurs, 4 if Redis cannot be reached.
    """
    if html is None and parquet is None and not as_json:
        raise click.UsageError("give --html, --parquet or --json")
    _refuse_without_spark()
    from ackq.spark.report import report as write

    _point_at(url)
    summary = write(queues, html=html, parquet=parquet)
    if as_json:
        failures = [{"queue": each.queue, "reason": each.reason, "count": each.dead}
                    for each in summary.failures]  # fmt: skip
        print_json({"queues": len(summary.overview.queues), "dead": summary.dead,
                    "in_flight": summary.in_flight, "failures": failures})  # fmt: skip
    else:
        click.echo(
            f"{len(summary.overview.queues):,} queues, {summary.dead:,} dead letters,"
            f" {summary.in_flight:,} in flight"
        )


def _made(config: str) -> Pipeline:
    _refuse_without_spark()
    from ackq.spark.pipeline import Pipeline

    return Pipeline(config)


def _refuse_without_spark() -> None:
    # PySpark's version warnings concern whoever installs it, not users of the command.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise ConfigurationError("Spark is missing: pip install 'ackq[spark]'")


def _point_at(url: str | None) -> None:
    """Set ACKQ_REDIS_URL for Spark's processes. Without a URL, use the embedded server's."""
    if url is None:
        from ackq.embedded import shared_url

        url = shared_url()
    os.environ["ACKQ_REDIS_URL"] = url
