"""Shows the format ``ackq`` to Spark, which looks into every module called ``pyspark_*``.

One such module that fails at its import would hide the formats of all others, so this one never
does: where ackq cannot be imported there is no such format.
"""

try:
    from ackq.spark.source import AckqDataSource as DefaultSource
except Exception:  # see above: whatever it is
    pass
else:
    __all__ = ["DefaultSource"]
