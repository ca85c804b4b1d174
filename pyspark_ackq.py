"""Shows the format ``ackq`` to Spark, which looks into every module called ``pyspark_*``.

One such module that fails at its import would hide the formats of all others, so this one never
does: where ackq cannot be imported there is no such format, and the log says why.
"""

import logging

try:
    from ackq.spark.source import AckqDataSource as DefaultSource
except Exception as error:  # see above: whatever it is
    logging.getLogger("ackq.spark").warning("the format 'ackq' cannot be used: %s", error)
else:
    __all__ = ["DefaultSource"]
