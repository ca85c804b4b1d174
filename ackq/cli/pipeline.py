"""``ackq pipeline``: process a queue, a topic or a delay queue with Spark."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import TYPE_CHECKING

import click
import redis

from ackq.cli import Group
from ackq.cli.options import examples, json_option, url_option
from ackq.cli.output import print_count, print_json
from ackq.cli.pipeline_runs import (
    config_argument,
    make,
    point_at_source,
    refuse_without_spark,
    run,
)
from ackq.cli.queues import open_list
from ackq.cli.tables import print_table
from ackq.core.client import client_of
from ackq.errors import ConfigurationError, redact
from ackq.escaping import printable

if TYPE_CHECKING:
    from ackq.spark.pipeline.config import PipelineConfig
    from ackq.spark.pipeline.trial import Trial

#: Messages that a sample may have, and how many it has by default.
MAX_ROWS, MAX_SAMPLED = 1_000_000, 10_000
#: Messages per read of a queue.
PAGE = 500


@click.group(cls=Group)
def pipeline() -> None:
    """Process a queue, topic or delay queue with Spark: check, transform, write.

    Requires the extra ackq[spark]. CONFIG is described in docs/pipeline.md.
    """


pipeline.add_command(run)


@pipeline.command(
    epilog=examples(
        "ackq pipeline check cars.toml",
        "ackq pipeline check cars.toml --sample 10000",
    )
)
@config_argument
@click.option(
    "--spark",
    is_flag=True,
    help="Start Spark to check the sink's format, the schema, the checks and the SQL.",
)
@click.option(
    "--sample",
    type=click.IntRange(1, MAX_ROWS),
    metavar="N",
    help="Also apply schema and checks to N ready messages, and report what would be rejected.",
)
@click.option("--dead", is_flag=True, help="With --sample: to dead letters instead.")
@url_option
@json_option
def check(
    config: str,
    spark: bool,
    sample: int | None,
    dead: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Check CONFIG without running it, and say whether it is valid.

    Without --spark the check is fast. It covers keys, values, names, options, and whether the
    transform's function exists. With a URL of Redis, it names the queues of the source that are not
    there. Only Spark can tell whether the sink's format or database is available; it may need a
    package. If something is wrong, prints one line with the key and a fix; exit code 3.

    With --sample, prints how many messages are rejected by reason, and by column for those that do
    not parse. No message is taken, and the transform does not run.
    """
    if dead and sample is None:
        raise click.UsageError("--dead needs --sample")
    made = make(config)
    if sample is None:
        if spark:
            made.check()
        click.echo(f"{config} is valid" + ("" if spark else "; --spark checks the sink, too"))
        if url is not None or "url" in made.config.source.options:
            point_at_source(made, url)
            _note_unknown(made.config)
        return
    point_at_source(made, url)
    trial = made.try_dead(sample) if dead else made.try_ready(sample)
    if as_json:
        print_json(trial.as_dict())
    else:
        _print_trial(trial)


def _note_unknown(config: PipelineConfig) -> None:
    """Name the queues of the source that are not there. They may be pushed to later."""
    from ackq.spark.pipeline.status import unknown_sources

    label = config.source.label
    try:
        for name in unknown_sources(config):
            click.echo(f"ackq: {label} {name!r} is not in Redis: empty, or misspelt?", err=True)
    except (redis.RedisError, OSError) as error:
        text = printable(redact(str(error)))
        click.echo(f"ackq: Redis was not asked for the {label}: {text}", err=True)


def _print_trial(trial: Trial) -> None:
    click.echo(f"{trial.rows:,} messages, {trial.accepted:,} accepted")
    for reason, verdict in trial.rejected.items():
        ids = ", ".join(example or "(no id)" for example in verdict.examples)
        click.echo(printable(f"{verdict.count:>9,}  {reason}  such as {ids}"))
    if trial.fields:
        click.echo("by column:")
    for field, count in trial.fields.most_common():
        click.echo(printable(f"{count:>9,}  {field}"))


@pipeline.command(epilog=examples("ackq pipeline redrive cars.toml"))
@config_argument
@click.option(
    "-n",
    "count",
    type=click.IntRange(1, MAX_ROWS),
    default=MAX_SAMPLED,
    metavar="N",
    help=f"Dead letters to look at, oldest first.  [{MAX_SAMPLED}]",
)
@url_option
def redrive(config: str, count: int, url: str | None) -> None:
    """Redrive the dead letters that CONFIG accepts now.

    Reads the dead letters of the source queue, and makes those ready again that pass the schema and
    the checks. The others stay dead. Prints the number redriven.
    """
    made = make(config)
    point_at_source(made, url)
    print_count(made.redrive(count), "dead letter", "redriven")


@pipeline.command(
    epilog=examples("ackq pipeline status cars.toml", "ackq pipeline status cars.toml --json")
)
@config_argument
@url_option
@json_option
def status(config: str, url: str | None, as_json: bool) -> None:
    """Show the progress of the pipeline of CONFIG, running or not. Does not start Spark.

    batch is the last batch that is done, and planned the number of messages in the next one, if it
    has begun; both need a checkpoint on this machine. lag is the number of messages that are not
    processed yet, and claimed the number in batches that are not acked. dead is the number of dead
    letters in the queue to which rejected messages go.
    """
    made = make(config)
    point_at_source(made, url)
    from ackq.spark.pipeline.status import read_status

    figures = read_status(made.config).as_dict()
    if as_json:
        print_json(figures)
        return
    for name in ("seconds_ago", "lease_ends_in"):
        if figures[name] is not None:
            figures[name] = f"{figures[name]:,.0f} s"
    shown = [
        (name.replace("_", " "), value) for name, value in figures.items() if value is not None
    ]
    print_table(("", "status"), shown)


@pipeline.command(epilog=examples("ackq pipeline infer jobs"))
@click.argument("queue")
@click.option(
    "--sample",
    type=click.IntRange(1, MAX_ROWS),
    default=MAX_SAMPLED,
    metavar="N",
    help=f"Ready messages to look at.  [{MAX_SAMPLED}]",
)
@click.option(
    "--format",
    "body_format",
    type=click.Choice(["json", "avro", "protobuf"]),
    default="json",
    help="Format of the messages.  [json]",
)
@click.option("--schema-file", metavar="FILE", help="Schema of --format avro or protobuf.")
@click.option("--schema-registry", metavar="URL", help="Registry that has it, instead of a file.")
@click.option("--message-type", metavar="NAME", help="Message of a Protobuf schema file.")
@url_option
def infer(
    queue: str,
    sample: int,
    body_format: str,
    schema_file: str | None,
    schema_registry: str | None,
    message_type: str | None,
    url: str | None,
) -> None:
    """Print the section [schema] that fits the first messages of QUEUE. Takes none.

    Texts that are all dates or times become DATE or TIMESTAMP, and values of different types
    STRING. Columns that all messages have are listed in not_null. Does not start Spark.
    """
    refuse_without_spark()
    from ackq.spark.formats.body_format import OPTIONS, BodyFormat
    from ackq.spark.pipeline.infer import infer as infer_schema
    from ackq.spark.raw_options import RawOptions

    given = {
        "format": body_format,
        "schemaFile": schema_file,
        "schemaRegistry": schema_registry,
        "messageType": message_type,
    }
    raw = RawOptions({name: value for name, value in given.items() if value}, OPTIONS, "a sample")
    form = BodyFormat.of(raw, retry_timeout=0)
    with open_list(url, queue) as opened:
        pages = (opened.peek(min(PAGE, sample - at), skip=at) for at in range(0, sample, PAGE))
        bodies = (message.body for page in takewhile(bool, pages) for message in page)
        schema = infer_schema(bodies, None if form.is_plain_json else form)
    expected = "JSON objects" if form.is_plain_json else f"{body_format} of the schema"
    if not schema.types:
        raise ConfigurationError(f"queue {queue!r} has no ready messages that are {expected}")
    click.echo(f"# From {schema.messages:,} messages, {schema.malformed:,} of them not {expected}.")
    click.echo("[schema]")
    click.echo("\n".join(["ddl = '''", *map(printable, schema.ddl.splitlines()), "'''"]))
    click.echo(f"not_null = {json.dumps(schema.not_null)}")


@pipeline.command(
    epilog=examples(
        "ackq pipeline report",
        "ackq pipeline report jobs --parquet reports",
    )
)
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option(
    "--parquet",
    metavar="FOLDER",
    help="Add a file with one row per message to FOLDER; needs the extra ackq[report].",
)
@json_option
def report(queues: tuple[str, ...], url: str | None, parquet: str | None, as_json: bool) -> None:
    """Report the dead and in-flight messages of QUEUES.

    Without QUEUES, reports all list queues. Counts dead letters by queue and reason, and those
    that a pipeline rejected by the rule that they broke. Takes and changes no messages, and shows
    no bodies. Does not start Spark. Exit codes: 3 if an extra is missing or an error occurs, 4 if
    Redis cannot be reached.
    """
    from ackq.ops.report import report as write

    with client_of(url) as client:
        summary = write(client, queues, parquet=parquet)
    if as_json:
        failures = [
            {"queue": failure.queue, "reason": failure.reason, "count": failure.dead}
            for failure in summary.failures
        ]
        rules = [
            {
                "queue": rule.queue,
                "rule": rule.rule,
                "count": rule.dead,
                "examples": [rule.first_id, rule.latest_id],
            }
            for rule in summary.broken_rules
        ]
        print_json(
            {
                "queues": len(summary.queues),
                "dead": summary.dead,
                "in_flight": summary.in_flight,
                "failures": failures,
                "rules": rules,
            }
        )
    else:
        click.echo(
            f"{len(summary.queues):,} queues, {summary.dead:,} dead letters,"
            f" {summary.in_flight:,} in flight",
            err=True,
        )
        lost = [(each.dead, "dead", each.queue, each.reason) for each in summary.failures]
        broken = [(each.dead, "rejected", each.queue, each.rule) for each in summary.broken_rules]
        leased = [(count, "in flight", name, "") for name, count in summary.leased.most_common()]
        print_table(["messages", "", "queue", "reason"], [*lost, *broken, *leased])
