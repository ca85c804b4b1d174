"""Say why a body does not fit the columns of a schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from ackq.spark.formats.misfit import Misfit
from ackq.spark.options import Parsing
from ackq.spark.values import MISFITS, converter, fitting

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

#: Why a body of JSON fits no schema.
MALFORMED = "not a JSON object"


def sql_of(kind: DataType) -> str:
    """Return a type as in DDL. Names of fields keep their case, which JSON distinguishes."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{each.name}: {sql_of(each.dataType)}' for each in kind)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{sql_of(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{sql_of(kind.keyType)}, {sql_of(kind.valueType)}>"
    return kind.simpleString().upper()


class Misfits:
    """Finds the columns that bodies do not fit."""

    def __init__(self, columns: Sequence[StructField], parsing: Parsing) -> None:
        """Prepare.

        Args:
            columns: that are parsed.
            parsing: how they are parsed.
        """
        self._decode = parsing.format.decoder(columns)
        self._columns = [
            (column.name, sql_of(column.dataType), converter(column.dataType, parsing.time_zone))
            for column in columns
        ]

    def of(self, body: bytes) -> list[str]:
        """Return the reasons, such as "size is not INT"; none if the body fits."""
        try:
            fields = self._decode(body)
        except Misfit as misfit:
            return [str(misfit)]
        except MISFITS:
            return [MALFORMED]
        values = ((fields.get(name), name, kind, convert) for name, kind, convert in self._columns)
        return [
            f"{name} is not {kind}"
            for value, name, kind, convert in values
            if value is not None and not fitting(convert, value)[1]
        ]
