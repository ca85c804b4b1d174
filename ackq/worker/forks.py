"""Ends a process that a handler has forked and that goes on as a second worker."""

from __future__ import annotations

import os

from ackq.worker.logs import log

#: Whether workers run in this process, and whether it was forked where they did.
_home = _forked = False


def settle_here() -> None:
    """Let workers run in this process."""
    global _home, _forked
    _home, _forked = True, False


def _has_forked() -> None:
    global _forked
    _forked = _home


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_has_forked)


def end_if_forked(error: BaseException | None = None) -> None:
    """End this process unless workers run in it.

    Call this when a handler has gone on: one that forks comes back twice. In the child, it must
    not take messages or settle any, since they are the parent's.

    Args:
        error: what the handler raised. ``sys.exit`` in the child has the intended code.
    """
    if not _forked:
        return
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        os._exit(error.code or 0)
    log.error("a handler has forked, and the child went on: it ends here; end it with os._exit")
    os._exit(1)
