"""Why a query ended, in one line, and what to change."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JJavaError

from ackq.errors import redact

#: What Python raises if Spark's JVM is gone. See `is_jvm_gone`.
NO_REPLY = (Py4JError, ConnectionError)
#: The last line of a traceback from a Spark process, if ackq or redis-py raised the error.
_OURS = re.compile(r"^(?:ackq\.errors|redis\.exceptions)\.(\w+: .*)$", re.MULTILINE)
#: How Spark reports that memory was too small.
_MEMORY = re.compile(
    r"OutOfMemoryError|Java heap space|GC overhead limit|TaskResultLost|maxResultSize"
    r"|ExecutorLostFailure|Cannot allocate memory"
)
_NEW_LINE = "\n"


def one_line(error: BaseException) -> str:
    """Return an error in one line: from Spark's reports, the error that ackq raised."""
    text = redact(str(error))
    if found := _OURS.findall(text):
        return str(found[-1])
    return f"{type(error).__name__}: {text.strip().partition(_NEW_LINE)[0]}"


def is_jvm_gone(error: BaseException) -> bool:
    """Return whether Spark's JVM did not reply, instead of replying with an error."""
    return isinstance(error, NO_REPLY) and not isinstance(error, Py4JJavaError)


def advice(error: BaseException) -> str:
    """Return what to change if Spark lacked memory, as sentences after a blank; else nothing."""
    if not (is_jvm_gone(error) or _MEMORY.search(str(error))):
        return ""
    return (
        " Spark had too little memory, or its process was killed: raise spark.driver.memory in"
        " [spark] (on a cluster, spark.executor.memory). A smaller maxMessagesPerTrigger in"
        " [source.options] applies to messages that are not claimed yet."
    )
