"""Processes that tests may kill and freeze.

They are forked from a small server process that has everything imported already: starting one
takes milliseconds, and no thread of the test is forked along.
"""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["__main__", "tests.faults.roles", "tests.campaign.workloads"])


@contextlib.contextmanager
def child(role: Callable[..., None], *args: Any) -> Iterator[BaseProcess]:
    """Run ``role`` in a process of its own, ended when the context ends."""
    process = start(role, *args)
    try:
        yield process
    finally:
        end(process)


def start(role: Callable[..., None], *args: Any) -> BaseProcess:
    """Start ``role`` in a process of its own, which the caller has to `end`."""
    process = _context.Process(target=role, args=args)
    process.start()
    return process


def end(process: BaseProcess) -> None:
    """Kill the process if it still runs, frozen or not."""
    process.kill()
    process.join(10)
    assert process.exitcode is not None


def freeze(process: BaseProcess) -> None:
    """Stop the process in its tracks; its connections stay open."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
