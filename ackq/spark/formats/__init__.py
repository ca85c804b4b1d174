"""The formats of bodies. Each decodes a body into the values that its JSON would have."""

from ackq.spark.formats.body_format import BodyFormat
from ackq.spark.formats.misfit import Decode, Misfit

__all__ = ["BodyFormat", "Decode", "Misfit"]
