"""``ackq pipeline run`` and ``submit``: run a pipeline here, or on a cluster."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ackq.cli import FAILED, INTERRUPTED
from ackq.cli.options import examples, json_option, url_option
from ackq.errors import ConfigurationError

if TYPE_CHECKING:
    from ackq.spark.pipeline import Pipeline, Progress
    from ackq.spark.submission import Submission

config_argument = click.argument("config", type=click.Path(dir_okay=False))


@dataclass(frozen=True, slots=True)
class Options:
    """How a pipeline is run."""

    once: bool
    metrics_port: int | None
    metrics_host: str
    as_json: bool

    def arguments(self) -> list[str]:
        """Return the options as arguments of ``ackq pipeline run``."""
        given = ["--once"] if self.once else []
        if self.metrics_port is not None:
            given += [f"--metrics-port={self.metrics_port}", f"--metrics-host={self.metrics_host}"]
        return [*given, "--json"] if self.as_json else given


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `Options`, which the command gets as one argument."""

    def with_options(
        once: bool, metrics_port: int | None, metrics_host: str, as_json: bool, **others: Any
    ) -> None:
        command(options=Options(once, metrics_port, metrics_host, as_json), **others)

    with_options.__doc__, with_options.__name__ = command.__doc__, command.__name__
    for option in (
        json_option,
        click.option(
            "--metrics-host",
            default="127.0.0.1",
            metavar="ADDRESS",
            help="Address of this port; 0.0.0.0 or :: for remote scrapers.  [127.0.0.1]",
        ),
        click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            metavar="PORT",
            help="Serve /metrics for Prometheus and /healthz on this port; needs the"
            " extra ackq[metrics].",
        ),
        click.option(
            "--once", is_flag=True, help="Process the messages that are ready now, then exit."
        ),
    ):
        with_options = option(with_options)
    return with_options


@click.command(epilog=examples("ackq pipeline run cars.toml --once"))
@config_argument
@url_option
@run_options
@click.pass_context
def run(ctx: click.Context, config: str, url: str | None, options: Options) -> None:
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
    _run(ctx, made, options)


@click.command(
    epilog=examples(
        "ackq pipeline submit cars.toml --master 'local[2]' --once",
        "ackq pipeline submit cars.toml --master yarn --python python3 --prepare submission",
    )
)
@config_argument
@click.option(
    "--master",
    required=True,
    metavar="URL",
    help="The cluster: spark://host:7077, yarn, k8s://https://host:6443.",
)
@click.option(
    "--deploy-mode",
    type=click.Choice(["client", "cluster"]),
    default="client",
    help="Where the driver runs: here, or on the cluster (YARN and Kubernetes).  [client]",
)
@click.option(
    "--python",
    metavar="PATH",
    help="Python of the cluster's machines, if ackq[spark] is installed there.  [send"
    " ackq and its dependencies]",
)
@click.option(
    "--prepare",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write everything to FOLDER and print the command with spark-submit. Starts nothing.",
)
@url_option
@run_options
@click.pass_context
def submit(
    ctx: click.Context,
    config: str,
    master: str,
    deploy_mode: str,
    python: str | None,
    prepare: Path | None,
    url: str | None,
    options: Options,
) -> None:
    """Run the pipeline of CONFIG on a Spark cluster.

    Sends ackq and the packages it needs to the cluster's machines, so they need only Spark, and the
    same version of Python as this machine. A password in the URL of Redis is not sent:
    docs/pipeline-deploy.md shows where to put it.

    Without --deploy-mode, the driver runs here, with the signals and exit codes of
    `ackq pipeline run`. With --deploy-mode cluster, the command waits until the pipeline ends; exit
    code 3 if it fails.
    """
    from_file = Path(config)
    refuse_without_spark()
    from ackq.spark.submission import Submission

    submission = Submission(from_file, master, deploy_mode == "cluster", python, url)
    if url is None and "url" not in submission.config().source.options:
        raise click.UsageError("a cluster needs the URL of Redis: set --url or ACKQ_REDIS_URL")
    if url is not None:
        os.environ["ACKQ_REDIS_URL"] = url
    if prepare is not None:
        prepare.mkdir(parents=True, exist_ok=True)
        click.echo(shlex.join(submission.prepare(prepare.absolute(), options.arguments())))
        return
    with TemporaryDirectory(prefix="ackq-") as folder:
        if submission.cluster:
            ctx.exit(_spark_submit(submission.prepare(Path(folder), options.arguments())))
        _run(ctx, _driver(submission, Path(folder)), options)


def _driver(submission: Submission, folder: Path) -> Pipeline:
    """Return a pipeline whose driver is this process."""
    from ackq.spark.pipeline import Pipeline

    if submission.python is None:
        # Driver and executors run Python by the same name; here, it is the one with ackq.
        os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return Pipeline(submission.configured(folder))


def _spark_submit(command: list[str]) -> int:
    from ackq.spark.launch import spark_submit
    from ackq.worker.signals import stopping_on_signals

    process = subprocess.Popen([spark_submit(), *command[1:]])
    with stopping_on_signals(process.terminate):
        return FAILED if process.wait() else 0


def _run(ctx: click.Context, made: Pipeline, options: Options) -> None:
    from ackq.spark.pipeline.display import display
    from ackq.spark.pipeline.metrics_port import MetricsPort
    from ackq.worker.signals import stopping_on_signals

    with ExitStack() as stack:
        shows = [stack.enter_context(display(made.config, options.as_json))]
        if options.metrics_port is not None:
            port = MetricsPort(made.config.name, (options.metrics_host, options.metrics_port))
            shows.append(stack.enter_context(closing(port)).show)
        stack.enter_context(stopping_on_signals(made.stop))

        def show_all(progress: Progress) -> None:
            for show in shows:
                show(progress)

        made.run(once=options.once, on_progress=show_all)
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
