"""Options of a sink: what to write, where to, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from ackq.errors import ConfigurationError
from ackq.membership.operations import MAX_PARTITIONS
from ackq.spark.connection import Connection
from ackq.spark.lists import found
from ackq.spark.options import RETRY_TIMEOUT_MS, TARGET, TARGET_COLUMNS, Target
from ackq.spark.raw_options import RawOptions

_SINK = (
    "writeMode",
    "txnAppId",
    "txnVersion",
    "valueColumn",
    "idColumn",
    "delayColumn",
    "atColumn",
    "partitions",
    "maxBodyBytes",
    "retentionMs",
    "retentionMessages",
    "retryTimeoutMs",
)
#: Options that Spark itself reads and passes on.
_SPARKS = ("checkpointLocation",)
#: Upper bound of maxBodyBytes: the limit of Redis.
_MAX_BODY = 512 * 1024 * 1024
WriteMode = Literal["transactional", "direct"]


@dataclass(frozen=True, slots=True)
class Writing:
    """The options of a sink. Pickled into every task, so it has no secrets."""

    connection: Connection
    target: Target
    #: Number of partitions of the delay queue; None: it is not partitioned.
    partitions: int | None
    mode: WriteMode
    #: The application and the version that make a batch write idempotent.
    transaction: tuple[str, int] | None
    value_column: str | None
    id_column: str | None
    #: The column with delays in seconds from the start of the task.
    delay_column: str | None
    #: The column with timestamps.
    at_column: str | None
    max_body_bytes: int
    #: Retention of the topic in seconds and in messages; None: forever, and all.
    max_age: float | None
    max_messages: int | None
    #: Seconds for which a commit is retried while Redis is unreachable.
    retry_timeout: float

    def located(self) -> Writing:
        """Return what to write with the names of all lists in use; see `found`."""
        target = found(self.target, self.connection, self.retry_timeout)
        return replace(self, target=replace(target, lists=target.lists[: target.used]))

    @classmethod
    def of(cls, options: Mapping[str, str], *, stream: bool) -> Writing:
        """Check every option of a sink.

        Raises:
            ConfigurationError: an option is invalid; the error names it and its allowed values.
        """
        raw = RawOptions(options, (*TARGET, *TARGET_COLUMNS, *_SINK, *_SPARKS), "a sink")
        target = Target.of(raw)
        mode = cast(
            WriteMode, raw.choice("writeMode", "transactional", ("transactional", "direct"))
        )
        _check_fit(raw, target, mode, stream)
        partitions = raw.integer("partitions", 0, 1, MAX_PARTITIONS)
        age = raw.integer("retentionMs", 0, 1)
        return cls(
            connection=Connection.of(raw),
            target=target,
            partitions=partitions or None,
            mode=mode,
            transaction=_transaction(raw),
            value_column=raw.text("valueColumn"),
            id_column=raw.text("idColumn"),
            delay_column=raw.text("delayColumn"),
            at_column=raw.text("atColumn"),
            max_body_bytes=raw.integer("maxBodyBytes", 1024 * 1024, 1, _MAX_BODY),
            max_age=age / 1000 if age else None,
            max_messages=raw.integer("retentionMessages", 0, 1) or None,
            retry_timeout=raw.integer("retryTimeoutMs", RETRY_TIMEOUT_MS, 0) / 1000,
        )


def _transaction(raw: RawOptions) -> tuple[str, int] | None:
    application = raw.text("txnAppId")
    if ("txnVersion" in raw) != (application is not None):
        raise ConfigurationError(
            "set both 'txnAppId' and 'txnVersion': the name of the application, and the number of"
            " the batch, which must increase from one write to the next"
        )
    return None if application is None else (application, raw.integer("txnVersion", 0, 0))


def _check_fit(raw: RawOptions, target: Target, mode: WriteMode, stream: bool) -> None:
    """Reject options that do not apply to this kind of target."""
    kinds = {
        "partitions": ("delayQueue",),
        "retentionMs": ("topic",),
        "retentionMessages": ("topic",),
        "delayColumn": ("queue", "delayQueue"),
        "atColumn": ("queue", "delayQueue"),
    }
    for name, fitting in kinds.items():
        if name in raw and target.kind not in fitting:
            raise ConfigurationError(
                f"option {name!r} is for {' and '.join(fitting)}, not for {target.kind}"
            )
    if "delayColumn" in raw and "atColumn" in raw:
        raise ConfigurationError("set 'delayColumn' or 'atColumn', not both")
    for name in ("txnAppId", "txnVersion"):
        if name in raw and (stream or mode == "direct"):
            raise ConfigurationError(
                f"option {name!r} is for a transactional batch write: a stream has the id of its"
                " query and the numbers of its batches, and writeMode=direct has no transactions"
            )
    if mode == "direct" and target.kind != "queue":
        raise ConfigurationError("writeMode=direct is only for queues: remove it")
