"""Write the blocking clients from the asyncio ones.

Edit a ``client_async.py``, then run ``make clients``. ``make lint`` runs this file with
``--check``, which changes nothing and fails if a blocking client is stale. Where threads and tasks
really differ (locks, cancellation, connections), both versions are written by hand and not listed.
"""

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "ackq"
#: The modules to translate. For each ``x_async.py``, an ``x.py`` is written beside it.
SOURCES = (
    "core/client_async.py",
    "core/io/nodes_async.py",
    "core/io/routes_async.py",
    "queue/whole_queue_async.py",
    "queue/client_async.py",
    "queue/schedules_client_async.py",
    "membership/client_async.py",
    "delay/base_client_async.py",
    "delay/client_async.py",
    "topic/client_async.py",
    "rsmq/client_async.py",
    "sharded/client_async.py",
    "sharded/shards_async.py",
    "ops/workers_async.py",
    "dropin/in_flight_async.py",
    "dropin/queues_async.py",
    "dropin/consumers_async.py",
    "dropin/passthrough_async.py",
    "dropin/client_async.py",
    "testing/deliveries_async.py",
    "tasks/tasks_async.py",
)
#: Phrases of docstrings that differ. Each must be on one line in the source.
WORDS = {
    "every asyncio class": "every blocking class",
    ", on asyncio": ", blocking",
    " For asyncio.": "",
    "an asyncio client of redis-py": "a blocking client of redis-py",
    "A task sends heartbeats from": "A background thread sends heartbeats from",
    "    A handler that blocks the event loop for ``session_timeout`` loses the session.\n": "",
    "For the tasks of one event loop, as one member.": (
        "Safe to share between threads, as one member. A forked child is another member."
    ),
    "For the tasks of one event loop.": "Safe to share between threads, and after a fork.",
    "For the tasks of one event loop, which are then one consumer.": (
        "Safe to share between threads, which are then one consumer, and after a fork."
    ),
    "an async context manager": "a context manager",
    "An async context manager": "A context manager",
    # The drop-in: a thread is to the one client what a task is to the other.
    "when the same task asks for": "when the same thread asks for",
    "    The cancellation of the task is one.\n": (
        "    `SystemExit` and `KeyboardInterrupt` are exceptions too.\n"
    ),
    "and when its task ends.\n": "and when its thread or the program ends.\n",
    "Settle what this task popped": "Settle what this thread popped",
    "whichever task popped it": "whichever thread popped it",
    "all that this task popped": "all that this thread popped",
    "each task popped from a list": "each thread popped from a list",
    "One round trip for each task that": "One round trip for each thread that",
    "                this task first. Values": "                this thread first. Values",
    "                task popped from the list.": "                thread popped from the list.",
    "messages that this task pops": "messages that this thread pops",
    "this task and of ended tasks": "this thread and of ended threads",
    "this task's": "this thread's",
    "of running tasks keep": "of running threads keep",
    "in the test's own task": "in the test's own thread",
    "an ``async with``": "a ``with``",
    "redis-py client for asyncio": "blocking redis-py client",
}
#: Code that differs: regular expressions, applied in this order.
CODE = (
    # An awaited call in parentheses loses them together with its await.
    (r"\(await ((?:[^()]|\((?:[^()]|\([^()]*\))*\))+)\)(?=\.| ==|\))", r"\1"),
    (r"\b(?:async|await) ", ""),
    (r"\bAwaitable\[([^]]+)\]", r"\1"),
    (r"\bCoroutine\[Any, Any, ([^]]+)\]", r"\1"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\bredis\.asyncio\b", "redis"),
    (r"\baclose\b", "close"),
    (r"\b__a(enter|exit|iter)__\b", r"__\1__"),
    (r"\b(ackq(?:\.\w+)+?)_async\b", r"\1"),
    (r"\bfrom asyncio import Lock\b", "from threading import Lock"),
)


def blocking(text: str) -> str:
    """Return the blocking version of ``text``, the source of an asyncio module."""
    for words, others in WORDS.items():
        text = text.replace(words, others)
    for pattern, other in CODE:
        text = re.sub(pattern, other, text)
    return text


def generate(source: Path) -> str:
    """Return the text of the blocking module, sorted and formatted for the linter."""
    note = f"# Written by tools/blocking.py: edit {source.name} instead, then run make clients.\n"
    text = note + blocking(source.read_text())
    for command in (("check", "--fix", "--select=I,F401"), ("format",)):
        ruff = (Path(sys.executable).with_name("ruff"), *command, "--quiet")
        where = f"--stdin-filename={twin_of(source)}"
        text = subprocess.run(
            (*ruff, where, "-"), input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


def twin_of(source: Path) -> Path:
    """Return the path of the blocking version of ``source``."""
    return source.with_name(source.name.replace("_async", ""))


def main(check: bool) -> int:
    """Write the blocking modules, or with ``check`` only compare them. Return the exit code."""
    stale = []
    for source in (PACKAGE / each for each in SOURCES):
        text, twin = generate(source), twin_of(source)
        if not twin.exists() or twin.read_text() != text:
            stale.append(str(twin.relative_to(PACKAGE.parent)))
            if not check:
                twin.write_text(text)
    if stale:
        print(*stale, "are stale: run make clients" if check else "written")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
