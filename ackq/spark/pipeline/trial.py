"""Try a configuration on messages without taking them: what it accepts, and why not the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ackq.errors import ConfigurationError
from ackq.spark.options import STREAM_ONLY
from ackq.spark.pipeline.plan import BODY, CORRUPT, CORRUPT_OPTION, REASON, UNPARSED, Plan
from ackq.spark.pipeline.rejects import Misfits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Bodies that do not parse are looked at in detail, up to this number.
MAX_BODIES = 1000
#: Ids that are kept as examples of a reason.
EXAMPLES = 3


@dataclass(slots=True)
class Verdict:
    """The messages that are rejected for one reason."""

    count: int = 0
    #: The ids of a few of them.
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Trial:
    """What a configuration does with a sample of messages."""

    rows: int = 0
    rejected: dict[str, Verdict] = field(default_factory=dict)
    #: Rejected messages by column: those that do not fit its type, and those for which it is null.
    fields: Counter[str] = field(default_factory=Counter)

    @property
    def accepted(self) -> int:
        """The number of messages that are not rejected."""
        return self.rows - sum(each.count for each in self.rejected.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "rows": self.rows,
            "accepted": self.accepted,
            "rejected": {reason: asdict(each) for reason, each in self.rejected.items()},
            "fields": dict(self.fields),
        }


class Trials:
    """Reads messages of the source of a pipeline, and applies its schema and its checks.

    The transform is not applied. No message is taken.
    """

    def __init__(self, plan: Plan, spark: SparkSession) -> None:
        plan.check(spark)
        self._plan = plan
        self._spark = spark
        self._prefix = "_" if plan.schema is not None else ""

    def sample(self, rows: int) -> Trial:
        """Try the configuration on the first ``rows`` ready messages, or those of a topic."""
        return self._try(self._checked({}).limit(rows))

    def dead(self, rows: int) -> Trial:
        """Try the configuration on the first ``rows`` dead letters of the source.

        Raises:
            ConfigurationError: the source is a topic.
        """
        return self._try(self._checked({"state": "dead"}).limit(rows))

    def accepted_entries(self, rows: int) -> dict[str, list[str]]:
        """Return the entries of dead letters that are accepted now, by queue."""
        queue, entry = self._column("queue"), self._column("entry")
        checked = self._checked({"state": "dead"}).limit(rows)
        entries: dict[str, list[str]] = {}
        for name, each in checked.where(F.col(REASON).isNull()).select(queue, entry).collect():
            entries.setdefault(name, []).append(each)
        return entries

    def _checked(self, options: dict[str, str]) -> DataFrame:
        dead = "state" in options
        if dead and "topic" in self._plan.source_options:
            raise ConfigurationError("a topic has no dead letters: try its messages instead")
        theirs = self._plan.source_options.items()
        usable = {name: value for name, value in theirs if name.lower() not in STREAM_ONLY}
        reader = self._spark.read.format("ackq").options(**{**usable, **options})
        if (ddl := self._plan.ddl) is not None:
            of_state = ", _queue STRING, _entry STRING" if dead else ""
            own = f"{CORRUPT} STRING, _id STRING, {BODY} BINARY{of_state}"
            reader = reader.schema(f"{ddl}, {own}")
            reader = reader.option(*CORRUPT_OPTION)
        return self._plan.with_reason(reader.load())

    def _column(self, name: str) -> Column:
        return F.col(f"{self._prefix}{name}")

    def _try(self, checked: DataFrame) -> Trial:
        checked = checked.persist()
        try:
            trial = Trial(rows=checked.count())
            rejected = checked.where(F.col(REASON).isNotNull())
            identity = self._column("id")
            for reason, count, ids in (
                rejected.groupBy(REASON)
                .agg(F.count(F.lit(1)), F.slice(F.collect_list(identity), 1, EXAMPLES))
                .orderBy(F.desc(F.count(F.lit(1))))
                .collect()
            ):
                trial.rejected[reason] = Verdict(count, ids)
                if reason.startswith("null: "):
                    for name in reason.removeprefix("null: ").split(", "):
                        trial.fields[f"{name} is null"] += count
            if UNPARSED in trial.rejected:
                bodies = checked.where(F.col(CORRUPT).isNotNull()).select(BODY)
                misfits = Misfits(self._plan.parsed_columns(), self._plan.parsing)
                for (body,) in bodies.limit(MAX_BODIES).collect():
                    trial.fields.update(misfits.of(bytes(body)))
            return trial
        finally:
            checked.unpersist()
