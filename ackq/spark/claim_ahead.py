"""Claim the next batch while Spark reads the current one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from ackq.core.claim_groups import Claim


def claim_ahead(claim: Callable[[], Claim | None]) -> Future[Claim | None]:
    """Claim on a thread of its own; the result is None if no message was ready.

    The thread is a daemon: if the process ends meanwhile, the messages claimed so far are a batch
    for the next driver, as after a death during any claim.
    """
    claimed: Future[Claim | None] = Future()

    def run() -> None:
        try:
            claimed.set_result(claim())
        except BaseException as error:
            claimed.set_exception(error)

    threading.Thread(target=run, name="ackq-claim", daemon=True).start()
    return claimed
