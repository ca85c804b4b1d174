"""``ackq pipeline``: a queue or a topic through Spark."""

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
    """Queue or topic through Spark: check, transform, write. Needs the extra spark.

    What a CONFIG may say is in docs/pipeline.md.
    """


@pipeline.command(epilog=examples("ackq pipeline run cars.toml --once"))
@config_argument
@url_option
@click.option("--once", is_flag=True,
              help="Do what is there now, then end; for schedulers.")  # fmt: skip
@json_option
@click.pass_context
def run(ctx: click.Context, config: str, url: str | None, once: bool, as_json: bool) -> None:
    """Run the pipeline of CONFIG until SIGTERM or Ctrl-C.

    The micro-batch in hand is finished first; a second signal ends it at once. Either way nothing
    is lost, and it goes on where it was when it is run again. In a terminal the progress is shown
    live, elsewhere a line for each batch, with --json a line of JSON for each.

    Exit code 0 when it was stopped or is done (--once), 3 when CONFIG is wrong or the query
    failed, 4 when Redis cannot be reached, 5 when another process took its group of claims over,
    130 when it was ended at once.
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
              help="Start Spark and let it find the format and read the schema, checks and SQL."
              )  # fmt: skip
def check(config: str, spark: bool) -> None:
    """Check CONFIG without running it, and print nothing if it is right.

    Without --spark in a moment: keys, values, names, options, and whether the function of a
    transform is there. Only Spark knows whether the sink's format is there, which may need a
    package. Exit code 3 if something is wrong: one line says which key, and what to do.
    """
    made = _made(config)
    if spark:
        made.check()


@pipeline.command(epilog=examples("ackq pipeline report --html queues.html --parquet reports",
                                  "ackq pipeline report jobs --json"))  # fmt: skip
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option("--html", type=click.Path(dir_okay=False), metavar="FILE",
              help="A page with pictures; needs the extra report.")  # fmt: skip
@click.option("--parquet", metavar="FOLDER",
              help="Files with a row a message; each report adds to the folder.")  # fmt: skip
@json_option
def report(
    queues: tuple[str, ...], url: str | None, html: str | None, parquet: str | None, as_json: bool
) -> None:
    """Report what is dead and in flight in QUEUES, or in all there are.

    By reason, age and queue over time. It takes nothing, changes nothing, and shows no body.
    Exit code 2 if none of --html, --parquet and --json is given, 3 if something is missing or
    refused, 4 when Redis cannot be reached.
    """
    if html is None and parquet is None and not as_json:
        raise click.UsageError("give --html, --parquet or --json")
    _refuse_without_spark()
    from ackq.spark.report import report as write

    _point_at(url)
    summary = write(queues, html=html, parquet=parquet)
    if as_json:
        failures = [{"queue": each.queue, "reason": each.reason, "count": each.count}
                    for each in summary.failures]  # fmt: skip
        print_json({"queues": len(summary.seen.queues), "dead": summary.dead,
                    "in_flight": summary.in_flight, "failures": failures})  # fmt: skip
    else:
        click.echo(
            f"{len(summary.seen.queues):,} queues, {summary.dead:,} dead letters,"
            f" {summary.in_flight:,} in flight"
        )


def _made(config: str) -> Pipeline:
    _refuse_without_spark()
    from ackq.spark.pipeline import Pipeline

    return Pipeline(config)


def _refuse_without_spark() -> None:
    # PySpark's remarks on the versions of what it finds are for who installs it.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise ConfigurationError("Spark is missing: pip install 'ackq[spark]'")


def _point_at(url: str | None) -> None:
    """Put the URL where Spark's processes find it; without one, that of the embedded server."""
    if url is None:
        from ackq.embedded import shared_url

        url = shared_url()
    os.environ["ACKQ_REDIS_URL"] = url
