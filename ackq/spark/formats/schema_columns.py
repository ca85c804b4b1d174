"""Compare the columns of a pipeline with the fields of a schema."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ackq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql.types import StructField


def check_columns(columns: Sequence[StructField], fields: Sequence[str]) -> None:
    """Raise an error for a column that a schema lacks.

    Raises:
        ConfigurationError: it names the column, and the nearest field or all of them.
    """
    for column in columns:
        if column.name not in fields:
            near = get_close_matches(column.name, fields, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(fields)}"
            raise ConfigurationError(f"the schema has no field for column {column.name!r}; {meant}")
