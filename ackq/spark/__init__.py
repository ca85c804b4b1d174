"""ackq on Apache Spark: the format ``ackq``, and a session that finds it.

``import ackq`` does not import Spark; this package needs the extra ``spark``.
"""

from ackq.spark.launch import session

__all__ = ["session"]
