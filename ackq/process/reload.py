"""Detect changed source files, for development."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ackq.errors import ConfigurationError


def watching(folder: str | os.PathLike[str]) -> threading.Event:
    """Return an event that is set whenever a Python file under ``folder`` changes.

    Raises:
        ConfigurationError: watchfiles is not installed.
    """
    try:
        from watchfiles import PythonFilter, watch
    except ImportError as error:
        raise ConfigurationError("--reload needs watchfiles: pip install 'ackq[reload]'") from error
    changed = threading.Event()

    def run() -> None:
        for _ in watch(Path(folder), watch_filter=PythonFilter(), raise_interrupt=False):
            changed.set()

    threading.Thread(target=run, daemon=True).start()
    return changed
