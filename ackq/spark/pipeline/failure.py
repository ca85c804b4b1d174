"""Why a query ended, in one line, and what to change."""

from __future__ import annotations

import logging
import os
import re
import traceback
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError

from ackq.errors import Fenced, PipelineFailed, PipelineFenced, redact
from ackq.spark.pipeline.query import BatchCallback

_LOG = logging.getLogger("ackq.spark")

#: The file in a local checkpoint with the whole report of the last failure.
REPORT = "last_failure.log"
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
#: What Java reports if a Python process does not call back within ten seconds of its start.
_NOT_STARTED = "Python worker failed to connect back"
_FENCED = f"{Fenced.__name__}: "
#: What Spark reports if two queries write one checkpoint.
_TWO_RUNS = "CONCURRENT_STREAM_LOG_UPDATE"
_NEW_LINE = "\n"


def failure(
    name: str,
    error: BaseException,
    batches: BatchCallback,
    checkpoint: Path | None,
    section: str = "",
) -> PipelineFailed:
    """Return the error with which a run ends.

    The whole report, with the traces of Python and Java, is logged at level INFO, and written into
    the checkpoint.

    Args:
        name: the name of the pipeline.
        error: what ended the query.
        batches: the callback of the query.
        checkpoint: the folder of the checkpoint; None: it is not on a local disk.
        section: the section of a sink with a query of its own. Defaults to none.
    """
    cause, number = batches.error, batches.number
    shown = cause or error
    where = "the query failed" if cause is None else f"batch {number} failed"
    if cause is not None and batches.writing:
        where += f" while [{batches.writing}] was written"
    reason = one_line(shown).rstrip(".")
    report = redact("".join(traceback.format_exception(shown)))
    _LOG.info("%s", report)
    kept = "" if checkpoint is None else _keep(report, checkpoint)
    kind = PipelineFenced if reason.startswith(_FENCED) else PipelineFailed
    return kind(
        f"{name}: {section and f'[{section}] '}{where}: {reason}.{advice(shown)}"
        f" Nothing is lost: the claimed messages are kept, and the next run begins with them{kept}",
        batch=None if cause is None else number,
    )


def _keep(report: str, checkpoint: Path) -> str:
    """Write a report into the checkpoint; return where it is, as a sentence without its end."""
    path = checkpoint / REPORT
    with suppress(OSError):  # the disk may be what failed
        # It may quote messages.
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(report)
        return f". The whole report is in {path}"
    return ""


def one_line(error: BaseException) -> str:
    """Return an error in one line: the one that ackq raised, or the root of Spark's report."""
    text = redact(str(error)).strip()
    if reasons := _OURS.findall(text):
        return str(reasons[-1])
    if _TWO_RUNS in text:
        return f"{_FENCED}another run with this checkpoint has written the same batch first"
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
    """Return what to change if memory may be the cause, after a blank; else nothing."""
    text = str(error)
    if is_jvm_gone(error) or _MEMORY.search(text):
        return (
            " Spark had too little memory, or its process was killed: raise spark.driver.memory in"
            " [spark] (on a cluster, spark.executor.memory). A smaller maxMessagesPerTrigger in"
            " [source.options] applies to messages that are not claimed yet."
        )
    if _NOT_STARTED in text:
        return " The process was killed, or the machine was too busy to start it within 10 seconds."
    if _PROCESS_GONE.search(text):
        return (
            " The system may have killed it for lack of memory (see dmesg): a smaller"
            " maxRecordsPerPartition in [source.options] makes smaller tasks."
        )
    return ""
