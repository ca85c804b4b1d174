"""Why a query ended, in one line, and what to change."""

from __future__ import annotations

import logging
import re

from py4j.protocol import Py4JError, Py4JJavaError

from ackq.errors import redact

_LOG = logging.getLogger("ackq.spark")

#: What Python raises if Spark's JVM is gone. See `is_jvm_gone`.
NO_REPLY = (Py4JError, ConnectionError)
#: The last line of a traceback from a Spark process, if ackq or redis-py raised the error.
_OURS = re.compile(r"^(?:ackq\.errors|redis\.exceptions)\.(\w+: .*)$", re.MULTILINE)
#: How Spark reports that memory was too small.
_MEMORY = re.compile(
    r"OutOfMemoryError|Java heap space|GC overhead limit|TaskResultLost|maxResultSize"
    r"|ExecutorLostFailure|Cannot allocate memory"
)
#: An error of Java in a report, with its class and its message. The last one is the root cause.
_OF_JAVA = re.compile(r"^(?:Caused by)?: (?:\w+\.)+([\w$]+)(?:: (.*\S))?$", re.MULTILINE)
#: What Java reports if one of its Python processes is gone, which has no message or a vague one.
_PROCESS_GONE = re.compile(
    r"java\.io\.EOFException|Python worker exited unexpectedly|\(no cause message\)"
    r"|Connection reset by peer|Broken pipe"
)
_NEW_LINE = "\n"


def one_line(error: BaseException) -> str:
    """Return an error in one line: from Spark's reports, the error that ackq raised, or the root.

    The whole report is logged at level INFO.
    """
    text = redact(str(error)).strip()
    if _NEW_LINE in text:
        _LOG.info("%s", text)
    if found := _OURS.findall(text):
        return str(found[-1])
    causes = [f"{name}: {message}" for name, message in _OF_JAVA.findall(text) if message]
    if _PROCESS_GONE.search(text):
        return f"a Python process of Spark ended early: {causes[-1] if causes else 'it was killed'}"
    if causes:
        return causes[-1]
    return f"{type(error).__name__}: {text.partition(_NEW_LINE)[0]}"


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
