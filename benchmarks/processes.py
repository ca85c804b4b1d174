"""Work in processes of its own, so that it takes no time from who is measured."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Concatenate, ParamSpec

Args = ParamSpec("Args")
#: Seconds that a process may take to end once its pipe is closed.
PATIENCE = 10.0


@contextmanager
def beside(
    work: Callable[Concatenate[Connection, Args], None], *args: Args.args, **kwargs: Args.kwargs
) -> Iterator[Connection]:
    """Run ``work(pipe, ...)`` in a new process; yield this end of its pipe.

    ``recv`` raises EOFError when the process has ended. At the end it is waited for, and
    terminated if it goes on.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(there, *args), kwargs=kwargs, daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join(PATIENCE)
        if process.is_alive():
            process.terminate()
            process.join()
