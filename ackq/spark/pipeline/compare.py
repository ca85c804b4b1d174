"""Compare two configurations: how schema and checks differ, and which messages each accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.misfits import sql_of
from ackq.spark.pipeline.plan import Plan
from ackq.spark.pipeline.trial import EXAMPLES, Trials, Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class Comparison:
    """What a configuration changes against an older one."""

    #: One line per change: "+ column size INT", "- check age: age > 0", ...
    changes: list[str] = field(default_factory=list)
    #: Messages that were compared, those that both accept, and those that both reject.
    rows: int = 0
    both: int = 0
    neither: int = 0
    #: Messages that only the new one accepts, by the old one's reason, and the other way round.
    gained: dict[str, Verdict] = field(default_factory=dict)
    lost: dict[str, Verdict] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {
            "changes": self.changes,
            "rows": self.rows,
            "both": self.both,
            "neither": self.neither,
            **{
                name: {
                    reason: {"count": each.count, "examples": each.examples}
                    for reason, each in verdicts.items()
                }
                for name, verdicts in (("gained", self.gained), ("lost", self.lost))
            },
        }


def compare(
    old: PipelineConfig, new: PipelineConfig, spark: SparkSession, rows: int, *, dead: bool
) -> Comparison:
    """Compare schemas and checks, also on a sample of messages.

    Args:
        old: the older configuration, of which only schema and checks count.
        new: the newer configuration.
        spark: the session.
        rows: messages of the newer one's source, from the front of the queue; 0: none. No message
            is taken.
        dead: the oldest dead letters instead.

    Raises:
        PipelineConfigError: as in `Plan.check`.
        ConfigurationError: ``dead`` is set, and the source is a topic.
    """
    configs = (replace(old, source=new.source, rejects=new.rejects), new)
    trials = [Trials(Plan(config), spark) for config in configs]
    comparison = Comparison(list(_changes(*(_parts(config, spark) for config in configs))))
    if rows:
        _count(comparison, *(_by_body(trial.verdicts(rows, dead=dead)) for trial in trials))
    return comparison


def _parts(config: PipelineConfig, spark: SparkSession) -> dict[str, str]:
    """Return the columns and rules of a configuration, and how each is defined."""
    given = config.validation
    columns = spark.createDataFrame([], given.ddl).schema if given.ddl is not None else ()
    return {
        **{f"column {column.name}": sql_of(column.dataType) for column in columns},
        **{f"not_null {name}": "" for name in given.not_null},
        **{f"check {name}:": sql for name, sql in given.checks.items()},
    }


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for part in dict.fromkeys([*old, *new]):
        if part not in new:
            yield f"- {part} {old[part]}".rstrip()
        elif part not in old:
            yield f"+ {part} {new[part]}".rstrip()
        elif old[part] != new[part]:
            yield f"~ {part} {old[part]} -> {new[part]}"


def _by_body(verdicts: DataFrame) -> DataFrame:
    """Return the verdict on each different body. Equal bodies have equal reasons."""
    return verdicts.groupBy("body").agg(
        F.count(F.lit(1)).alias("rows"), F.first("id").alias("id"), F.first("reason").alias("no")
    )


def _count(comparison: Comparison, old: DataFrame, new: DataFrame) -> None:
    # Messages that arrived or were taken between the two reads are left out.
    both = old.join(new.select("body", F.col("no").alias("now")), "body")
    for was, now, count, ids in (
        both.groupBy("no", "now")
        .agg(F.sum("rows"), F.slice(F.array_agg("id"), 1, EXAMPLES))
        .orderBy(F.desc(F.sum("rows")))
        .collect()
    ):
        comparison.rows += count
        if was is None and now is None:
            comparison.both += count
        elif was is None:
            _add(comparison.lost, now, count, ids)
        elif now is None:
            _add(comparison.gained, was, count, ids)
        else:
            comparison.neither += count


def _add(verdicts: dict[str, Verdict], reason: str, count: int, ids: list[str]) -> None:
    verdict = verdicts.setdefault(reason, Verdict())
    verdict.count += count
    verdict.examples = [*verdict.examples, *ids][:EXAMPLES]
