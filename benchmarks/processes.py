"""Run work in its own process, so that it takes no time from the measured process."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Concatenate, ParamSpec

Args = ParamSpec("Args")
#: Longest time, in seconds, for a process to end after its pipe is closed.
TIMEOUT = 10.0


@contextmanager
def beside(
    work: Callable[Concatenate[Connection, Args], None], *args: Args.args, **kwargs: Args.kwargs
) -> Iterator[Connection]:
    """Run ``work(pipe, ...)`` in a new process; yield this end of its pipe.

    ``recv`` raises EOFError when the process has ended. On exit, wait for the process, and
    terminate it if it continues.
    """
    context = multiprocessing.get_context("forkserver")
    # The server imports what takes long, once for all processes.
    context.set_forkserver_preload([work.__module__])
    here, there = context.Pipe()
    process = context.Process(target=work, args=(there, *args), kwargs=kwargs, daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join(TIMEOUT)
        if process.is_alive():
            process.terminate()
            process.join()
