"""Convert rows to messages."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from ackq.core.ids import key_of_id, usable_id
from ackq.core.limits import LATEST
from ackq.core.names import check_name
from ackq.delay.messages import MAX_KEY
from ackq.errors import ConfigurationError, InvalidMessage, MessageTooLarge, QueueNameError
from ackq.spark.sink_options import Writing

#: Number types that may contain values without a JSON form.
FLOATING = (spark.FloatType, spark.DoubleType)
_AS_THEY_ARE = (
    spark.StringType,
    spark.CharType,
    spark.VarcharType,
    spark.BooleanType,
    spark.IntegralType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
    spark.NullType,
)
Convert = Callable[[Any], Any]


def converter(name: str, kind: spark.DataType) -> Convert | None:
    """Return a converter of a column's values, like Spark's to_json; None if orjson suffices.

    Raises:
        ConfigurationError: the type has no JSON form.
    """
    if isinstance(kind, _AS_THEY_ARE) or type(kind).__name__ == "TimeType":
        return None
    if isinstance(kind, FLOATING):
        return _number
    if isinstance(kind, spark.DecimalType):
        return _exact
    if isinstance(kind, spark.BinaryType):
        return lambda value: base64.b64encode(value).decode()
    if isinstance(kind, spark.ArrayType):
        inner = _optional(converter(name, kind.elementType))
        return inner and (lambda values: [inner(value) for value in values])
    if isinstance(kind, spark.MapType):
        keep = _optional(converter(name, kind.valueType)) or (lambda value: value)
        return lambda pairs: {_key(key): keep(value) for key, value in pairs}
    if isinstance(kind, spark.StructType):
        return _struct(name, kind)
    raise ConfigurationError(
        f"column {name!r} is {kind.simpleString()}, which has no JSON form: cast it, or drop it"
    )


def _struct(name: str, kind: spark.StructType) -> Convert | None:
    optional = {field.name: _optional(converter(name, field.dataType)) for field in kind.fields}
    converters = {each: convert for each, convert in optional.items() if convert}
    if not converters:
        return None
    return lambda fields: (
        fields | {each: convert(fields[each]) for each, convert in converters.items()}
    )


def _optional(convert: Convert | None) -> Convert | None:
    return convert and (lambda value: None if value is None else convert(value))


def _number(value: float) -> float | str:
    # The text that Spark writes for numbers that JSON cannot express.
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _exact(value: Decimal) -> orjson.Fragment:
    return orjson.Fragment(f"{value:f}".encode())


def _key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


#: The columns of streams from a queue and from a topic. Such rows are passed on unchanged.
_FROM_SOURCES = (
    frozenset(("id", "value", "queue", "batch", "position")),
    frozenset(("id", "value", "topic", "offset")),
)
#: The optional column with the exact bytes of the body.
_BYTES = "_body"

_TEXT = (spark.StringType, spark.CharType, spark.VarcharType, spark.BinaryType)


@dataclass(slots=True)
class Messages:
    """The messages of some rows, in order."""

    bodies: list[bytes]
    #: The ids as keys; None for a row without one. Empty if ids are not needed.
    keys: Sequence[str | None] = ()
    #: Positions of the JSON objects to which an id must be added.
    unnamed: list[int] = field(default_factory=list)
    #: Ready times in µs since the epoch; None: at once. Empty: all messages at once.
    dues: list[int | None] = field(default_factory=list)


class RowEncoder:
    """Converts rows of one schema to messages."""

    def __init__(self, schema: spark.StructType, writing: Writing) -> None:
        """Check that the columns can be sent.

        Raises:
            ConfigurationError: a column cannot be sent; the error names it, its type and a fix.
        """
        types = {each.name: each.dataType for each in schema.fields}
        if len(types) < len(schema.fields):
            raise ConfigurationError("two columns have the same name: rename one")
        self._limit = writing.max_body_bytes
        self._delay = _checked(types, "delayColumn", writing.delay_column, spark.NumericType)
        self._at = _checked(types, "atColumn", writing.at_column, spark.TimestampType)
        self._id = _checked(
            types, "idColumn", writing.id_column, (spark.StringType, spark.IntegralType)
        )
        self._target = _checked(
            types, f"{writing.target.kind}Column", writing.target.column, spark.StringType
        )
        self._value = _value_column(types, writing)
        kind = writing.target.kind
        self._names_rows = kind == "queue"
        self._needs_keys = kind == "delayQueue" or len(writing.target.lists) > 1
        self._columns: list[str] = []
        self._converters: dict[str, Convert | None] = {}
        if self._value is None:
            self._plan_object(types)

    def _plan_object(self, types: dict[str, spark.DataType]) -> None:
        if self._id is None and "id" in types:
            self._id = _checked(types, "idColumn", "id", (spark.StringType, spark.IntegralType))
        control = (self._id, self._delay, self._at, self._target)
        self._columns = [name for name in types if name not in control]
        if self._id not in (None, "id") and "id" in types:
            raise ConfigurationError(
                f"there is a column 'id', and idColumn is {self._id!r}: drop or rename one"
            )
        self._converters = {name: converter(name, types[name]) for name in self._columns}
        self._floating = {name for name in types if isinstance(types[name], FLOATING)}

    def encode(self, batch: pa.RecordBatch, where: Callable[[int], str], now: int) -> Messages:
        """Return the messages of a batch.

        Args:
            batch: the rows.
            where: returns the name of a row, for errors.
            now: the server's time in µs, from which delays count.

        Raises:
            InvalidMessage: a row cannot become a message; the error names the row.
            MessageTooLarge: a message is too long; the error names the row.
        """
        ids = None
        if self._id is not None:
            column = batch.column(self._id)
            ids = column.to_pylist()
            if not _all_usable(column):
                _check_ids(ids, where)
        if self._value:
            messages = self._values(batch, ids, where)
        else:
            messages = self._objects(batch, ids, where)
        messages.dues = self._dues(batch, where, now)
        if max(map(len, messages.bodies), default=0) > self._limit:
            self._refuse_long(messages.bodies, where)
        return messages

    def targets(self, batch: pa.RecordBatch, where: Callable[[int], str]) -> list[str]:
        """Return the queue or topic of each row. Call it only if a column names it.

        Raises:
            InvalidMessage: a row has no valid name; the error names the row.
        """
        column = batch.column(self._target)
        for name in column.unique().to_pylist():
            try:
                check_name(name or "")
            except QueueNameError as error:
                number = column.to_pylist().index(name)
                raise InvalidMessage(
                    f"{where(number)}: column {self._target!r} names no queue or topic:"
                    f" {error}. No row of the batch was written"
                ) from None
        names: list[str] = column.to_pylist()
        return names

    def _refuse_long(self, bodies: list[bytes], where: Callable[[int], str]) -> NoReturn:
        number = next(at for at, body in enumerate(bodies) if len(body) > self._limit)
        raise MessageTooLarge(
            f"{where(number)} is a message of {len(bodies[number])} bytes, over the limit of"
            f" {self._limit}: store the content elsewhere and send a reference, or raise"
            " maxBodyBytes here and max_body_bytes at the consumers"
        )

    def _values(
        self, batch: pa.RecordBatch, ids: list[Any] | None, where: Callable[[int], str]
    ) -> Messages:
        column = batch.column(self._value)
        if column.null_count:
            number = column.is_null().to_pylist().index(True)
            raise InvalidMessage(
                f"{where(number)}: column {self._value!r} is null. No row of the batch was written:"
                " filter such rows, or give them a value"
            )
        bodies: list[bytes] = column.cast(pa.binary()).to_pylist()
        if ids is not None and self._names_rows:
            bodies = [
                body if each is None else _with_row_id(body, each, number, where)
                for number, (body, each) in enumerate(zip(bodies, ids, strict=True))
            ]
        if not self._needs_keys:
            return Messages(bodies)
        row_ids = ids or [None] * len(bodies)
        keys = [
            usable_id(body) if each is None else key_of_id(each)
            for body, each in zip(bodies, row_ids, strict=True)
        ]
        return Messages(bodies, keys)

    def _objects(
        self, batch: pa.RecordBatch, ids: list[Any] | None, where: Callable[[int], str]
    ) -> Messages:
        names = self._columns
        columns = [self._column(batch, name, where) for name in names]
        if ids is not None and None not in ids:
            rows = zip(ids, *columns, strict=True)
            bodies = [orjson.dumps(dict(zip(("id", *names), row, strict=True))) for row in rows]
            return Messages(bodies, self._keys(ids))
        bodies, unnamed = [], []
        for number in range(batch.num_rows):
            fields = {name: column[number] for name, column in zip(names, columns, strict=True)}
            row_id = ids[number] if ids else None
            if row_id is not None:
                fields = {"id": row_id, **fields}
            elif self._names_rows:
                unnamed.append(number)
            bodies.append(orjson.dumps(fields))
        return Messages(bodies, self._keys(ids or [None] * len(bodies)), unnamed)

    def _keys(self, ids: list[Any]) -> list[str | None]:
        if not self._needs_keys:
            return []
        return [None if message_id is None else key_of_id(message_id) for message_id in ids]

    def _column(self, batch: pa.RecordBatch, name: str, where: Callable[[int], str]) -> list[Any]:
        column = batch.column(name)
        values = _listed(column, name, where)
        convert = self._converters[name]
        if convert is None:
            return values
        if name in self._floating and pc.all(pc.is_finite(column)).as_py() is not False:
            return values
        return [None if value is None else convert(value) for value in values]

    def _dues(
        self, batch: pa.RecordBatch, where: Callable[[int], str], now: int
    ) -> list[int | None]:
        if self._at is not None:
            column = batch.column(self._at).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            return [None if due is None else max(0, due) for due in column.to_pylist()]
        if self._delay is None:
            return []
        delays = batch.column(self._delay).to_pylist()
        return [_due(delay, now, number, self._delay, where) for number, delay in enumerate(delays)]


def _listed(column: pa.Array, name: str, where: Callable[[int], str]) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        for number in range(len(column)):
            try:
                column[number].as_py()
            except (OverflowError, ValueError):
                raise InvalidMessage(
                    f"{where(number)}: column {name!r} has a time outside of the years 1 to 9999."
                    " No row of the batch was written: filter such rows, or cast it to a string"
                ) from None
        raise


def with_id(body: bytes, new_id: str) -> bytes:
    """Return a JSON object that has no id with an id in front."""
    rest = body[1:] if body == b"{}" else b"," + body[1:]
    return b'{"id":' + orjson.dumps(new_id) + rest


def _with_row_id(body: bytes, row_id: Any, number: int, where: Callable[[int], str]) -> bytes:
    """Return a body with the id of its row, unless the body has one."""
    if usable_id(body) is not None:
        return body
    try:
        parsed = orjson.loads(body)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict) or "id" in parsed:
        raise InvalidMessage(
            f"{where(number)}: the value is not a JSON object without an id, so the id {row_id!r}"
            " cannot be added. No row of the batch was written: remove idColumn, or write objects"
        )
    text = body.strip()
    return b'{"id":' + orjson.dumps(row_id) + (b"," if parsed else b"") + text[1:]


def _all_usable(column: pa.Array) -> bool:
    """Return whether a quick check shows that all ids can be keys; if not, check each."""
    if column.null_count == len(column):
        return True
    if pa.types.is_integer(column.type):
        limits: dict[str, int] = pc.min_max(column).as_py()
        return limits["min"] > -(2**53) and limits["max"] < 2**53
    lengths: dict[str, int] = pc.min_max(pc.binary_length(column)).as_py()
    begins_with_nul: bool = pc.any(pc.starts_with(column, "\0")).as_py()
    return lengths["min"] >= 1 and lengths["max"] <= MAX_KEY and not begins_with_nul


def _check_ids(ids: list[Any], where: Callable[[int], str]) -> None:
    for number, each in enumerate(ids):
        if each is not None and key_of_id(each) is None:
            raise InvalidMessage(
                f"{where(number)}: the id {each!r} is not valid: it must be a string of 1 to 512"
                " bytes or an integer below 2**53. No row of the batch was written"
            )


def _due(delay: Any, now: int, number: int, column: str, where: Callable[[int], str]) -> int | None:
    if delay is None or delay == 0:
        return None
    if not 0 < delay <= (LATEST - now) / 1_000_000:
        raise InvalidMessage(
            f"{where(number)}: column {column!r} is {delay}, which is not a valid delay in"
            " seconds. No row of the batch was written"
        )
    wait: int = math.ceil(delay * 1_000_000)
    return now + wait


def _value_column(types: dict[str, spark.DataType], writing: Writing) -> str | None:
    """Return the column of whole messages; None if messages consist of all columns."""
    if writing.value_column is not None:
        return _checked(types, "valueColumn", writing.value_column, _TEXT)
    target = writing.target.column
    control = {writing.id_column, writing.delay_column, writing.at_column, target}
    rest = types.keys() - control
    # The column that names the target may be one of the source's.
    if any(rest - {_BYTES} == columns - {target} for columns in _FROM_SOURCES):
        return _BYTES if _BYTES in rest else "value"
    return "value" if rest == {"value"} and isinstance(types["value"], _TEXT) else None


def _checked(
    types: dict[str, spark.DataType], option: str, name: str | None, wanted: Any
) -> str | None:
    if name is None:
        return None
    if name not in types:
        raise ConfigurationError(
            f"option {option!r} names the column {name!r}, which does not exist: there are"
            f" {', '.join(types)}"
        )
    if not isinstance(types[name], wanted):
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        expected = " or ".join(kind.__name__.removesuffix("Type").lower() for kind in kinds)
        raise ConfigurationError(
            f"column {name!r} is {types[name].simpleString()}, and {option} needs {expected}:"
            " cast it"
        )
    return name
