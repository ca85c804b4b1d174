"""Say why a body does not fit the columns of a schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ackq.spark.values import MISFITS, converter, fitting, parse

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

#: Why a body fits no schema.
MALFORMED = "not a JSON object"


class Misfits:
    """Finds the columns that bodies do not fit."""

    def __init__(self, columns: Iterable[StructField], zone: str) -> None:
        """Prepare.

        Args:
            columns: that are parsed.
            zone: the zone of times without one.
        """
        self._columns = [
            (each.name, each.dataType.simpleString().upper(), converter(each.dataType, zone))
            for each in columns
        ]

    def of(self, body: bytes) -> list[str]:
        """Return the reasons, such as "size is not INT"; none if the body fits."""
        try:
            found = parse(body, exact=True)
        except MISFITS:
            return [MALFORMED]
        values = ((found.get(name), name, kind, convert) for name, kind, convert in self._columns)
        return [
            f"{name} is not {kind}"
            for value, name, kind, convert in values
            if value is not None and not fitting(convert, value)[1]
        ]
