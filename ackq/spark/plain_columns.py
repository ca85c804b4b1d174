"""Make columns at once of parsed JSON values that need no conversion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
)

from ackq.spark.values import MISFITS

#: The type of values that a column takes as they are. A bool is no int here.
_OWN: dict[type[DataType], type] = {
    StringType: str,
    BooleanType: bool,
    FloatType: float,
    DoubleType: float,
    **dict.fromkeys((ByteType, ShortType, IntegerType, LongType), int),
}


def unconverted(values: Sequence[Any], kind: DataType, arrow: pa.DataType) -> pa.Array | None:
    """Return a column of ``values``; None: some of them may need a conversion, or do not fit."""
    try:
        if isinstance(kind, MapType):
            return _maps(values, kind, arrow)
        own = _OWN.get(type(kind))
        if own is None or not _are(own, values):
            return None
        return _floats(values) if isinstance(kind, FloatType) else pa.array(values, arrow)
    except MISFITS:
        return None


def _floats(values: Sequence[float | None]) -> pa.Array | None:
    """Return floats; None: one is too large, or in the middle of two, so its text decides."""
    doubles = pa.array(values, pa.float64())
    floats = doubles.cast(pa.float32())
    nearest = floats.cast(pa.float64())
    rest = pc.subtract(doubles, nearest)
    opposite = pc.add(doubles, rest)
    is_middle = pc.equal(opposite.cast(pa.float32()).cast(pa.float64()), opposite)
    odd = pc.or_(pc.is_inf(floats), pc.and_(is_middle, pc.not_equal(rest, 0.0)))
    return None if pc.any(odd).as_py() else floats


def _are(own: type, values: Iterable[Any]) -> bool:
    return set(map(type, values)) <= {own, type(None)}


def _maps(maps: Sequence[dict[str, Any] | None], kind: MapType, arrow: pa.DataType) -> Any:
    if not _are(dict, maps):
        return None
    whole = [{} if each is None else each for each in maps]
    # These run in C, without a step of Python for each map.
    members = list(chain.from_iterable(map(dict.values, whole)))
    items = unconverted(members, kind.valueType, arrow.item_type)
    if items is None:
        return None
    offsets: list[int | None] = list(accumulate(map(len, whole), initial=0))
    if None in maps:
        for position, each in enumerate(maps):
            if each is None:
                offsets[position] = None
    keys = pa.array(list(chain.from_iterable(whole)), arrow.key_type)
    made = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items)
    return made.cast(arrow)
