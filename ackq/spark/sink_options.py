"""Options of a sink: what to write, where to, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from ackq.errors import ConfigurationError
from ackq.membership.operations import MOST_PARTITIONS
from ackq.spark.given import RawOptions
from ackq.spark.options import PLACE, RETRY_TIMEOUT_MS, Connection, Place

_SINK = (
    "writeMode", "txnAppId", "txnVersion", "valueColumn", "idColumn", "delayColumn", "atColumn",
    "partitions", "maxBodyBytes", "retentionMs", "retentionMessages", "retryTimeoutMs",
)  # fmt: skip
#: Options that Spark itself reads and passes on.
_SPARKS = ("checkpointLocation",)
#: Upper bound of maxBodyBytes: the limit of Redis.
_LONGEST_BODY = 512 * 1024 * 1024
WriteMode = Literal["transactional", "direct"]


@dataclass(frozen=True, slots=True)
class Writing:
    """The options of a sink. Pickled into every task, so it has no secrets."""

    connection: Connection
    place: Place
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

    @classmethod
    def of(cls, options: Mapping[str, str], *, stream: bool) -> Writing:
        """Check every option of a sink.

        Raises:
            ConfigurationError: an option is invalid; the error names it and its allowed values.
        """
        given = RawOptions(options, dict.fromkeys((*PLACE, *_SINK, *_SPARKS)), "a sink")
        place = Place.of(given)
        mode = cast(WriteMode, given.choice("writeMode", "transactional",
                                            ("transactional", "direct")))  # fmt: skip
        _check_fit(given, place, mode, stream)
        partitions = given.integer("partitions", 0, 1, MOST_PARTITIONS)
        age = given.integer("retentionMs", 0, 1)
        return cls(
            connection=Connection.of(given),
            place=place,
            partitions=partitions or None,
            mode=mode,
            transaction=_transaction(given),
            value_column=given.text("valueColumn"),
            id_column=given.text("idColumn"),
            delay_column=given.text("delayColumn"),
            at_column=given.text("atColumn"),
            max_body_bytes=given.integer("maxBodyBytes", 1024 * 1024, 1, _LONGEST_BODY),
            max_age=age / 1000 if age else None,
            max_messages=given.integer("retentionMessages", 0, 1) or None,
            retry_timeout=given.integer("retryTimeoutMs", RETRY_TIMEOUT_MS, 0) / 1000,
        )


def _transaction(given: RawOptions) -> tuple[str, int] | None:
    application = given.text("txnAppId")
    if ("txnVersion" in given) != (application is not None):
        raise ConfigurationError(
            "options 'txnAppId' and 'txnVersion' go together: the name of the application, and"
            " the number of the batch, which must grow from one write to the next"
        )
    return None if application is None else (application, given.integer("txnVersion", 0, 0))


def _check_fit(given: RawOptions, place: Place, mode: WriteMode, stream: bool) -> None:
    """Reject options that do not apply to this kind of target."""
    kinds = {
        "partitions": ("delayQueue",),
        "retentionMs": ("topic",),
        "retentionMessages": ("topic",),
        "delayColumn": ("queue", "delayQueue"),
        "atColumn": ("queue", "delayQueue"),
    }
    for name, fitting in kinds.items():
        if name in given and place.kind not in fitting:
            raise ConfigurationError(
                f"option {name!r} is for {' and '.join(fitting)}, not for {place.kind}"
            )
    if "delayColumn" in given and "atColumn" in given:
        raise ConfigurationError("set 'delayColumn' or 'atColumn', not both")
    for name in ("txnAppId", "txnVersion"):
        if name in given and (stream or mode == "direct"):
            raise ConfigurationError(
                f"option {name!r} is for a transactional batch write: a stream has the id of its"
                " query and the numbers of its batches, and writeMode=direct has no transactions"
            )
    if mode == "direct" and place.kind != "queue":
        raise ConfigurationError("writeMode=direct is for a queue: leave it out")
