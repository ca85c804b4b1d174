"""Wait for work: deadlines, blocking commands, and jitter between waiters."""

from __future__ import annotations

from typing import Any

from redis.exceptions import OutOfMemoryError, ResponseError

from ackq.core.call import Spec, call
from ackq.core.effects import Arg, Clock, Operation, Request, Sleep
from ackq.errors import ConfigurationError

#: Seconds between two checks of a paused queue.
PAUSED_POLL = 0.5
#: Seconds of jitter on a wait, so that one deadline does not wake every waiter at once.
WAIT_JITTER = 0.05
#: Shortest timeout of BLMOVE and BLPOP in seconds: Redis 6.2 reads a millisecond as "forever".
MIN_BLOCK = 0.01
#: Returned by `block` if the wait ended early without a message.
INTERRUPTED = object()


def check_timeout(timeout: float | None) -> float:
    """Return the seconds to wait: 0 for None, which does not wait.

    Raises:
        ConfigurationError: it is neither None nor seconds from 0.
    """
    if timeout is None:
        return 0.0
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout >= 0:
        raise ConfigurationError(
            f"timeout is None (at once), seconds from 0, or math.inf, not {timeout!r}"
        )
    return timeout


class Deadline:
    """When a call that waits for work gives up. Its time starts at the first use of `left`."""

    def __init__(self, timeout: float | None) -> None:
        """Check ``timeout``: seconds from 0, ``math.inf``, or None, which does not wait.

        Raises:
            ConfigurationError: it is anything else.
        """
        self.timeout = 0.0 if timeout is None else check_timeout(timeout)
        self._end: float | None = None

    def left(self) -> Operation[float]:
        """Return the remaining seconds; 0 means give up."""
        if not self.timeout:
            return 0.0
        now: float = yield Clock()
        if self._end is None:
            self._end = now + self.timeout
        return max(0.0, self._end - now)


#: The deadline of a call that does not wait.
AT_ONCE = Deadline(None)


def seconds_of(block: float) -> float:
    """Return ``block`` seconds as BLMOVE and BLPOP take them."""
    return max(MIN_BLOCK, round(block, 3))


def block(spec: Spec, command: tuple[Arg, ...], seconds: float, *context: Any) -> Operation[Any]:
    """Send a command that waits up to ``seconds``, and return its reply, or None after that time.

    A server out of memory rejects commands that may allocate, such as BLMOVE. Then this sleeps
    instead: scripts that free memory still run. A failover or resharding ends waits with an error;
    then this returns at once, to check again. Both return `INTERRUPTED`.
    """
    try:
        return (yield from call(spec, Request(command, resend=True), *context))
    except OutOfMemoryError:
        yield Sleep(seconds)
    except ResponseError as error:
        if not str(error).startswith("UNBLOCKED"):
            raise
    return INTERRUPTED
