"""Wait for work: deadlines, blocking commands, and jitter between waiters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.exceptions import AskError, OutOfMemoryError, ResponseError

from ackq.config import Seconds, in_seconds
from ackq.core.call import Spec, call
from ackq.core.effects import Arg, Clock, Operation, Request, Sleep
from ackq.core.retries import FIRST_PAUSE, TEMPORARY, pause_before_resend
from ackq.errors import ConfigurationError

#: Seconds between two checks of a paused queue.
PAUSED_POLL = 0.5
#: Seconds of jitter on a wait, so that one deadline does not wake every waiter at once.
WAIT_JITTER = 0.05
#: Most seconds by which Redis ends a blocking command late: its timer ticks every 0.1 s.
SERVER_TICK = 0.1
#: Seconds between two looks when something ends within a tick.
SOON_POLL = 0.02
#: Shortest timeout of BLMOVE and BLPOP in seconds: Redis 6.2 reads a millisecond as "forever".
MIN_BLOCK = 0.01
#: Returned by `block` if the wait ended early without a message.
INTERRUPTED = object()


def check_timeout(timeout: Seconds | None) -> float:
    """Return the seconds to wait: 0 for None, which does not wait.

    Raises:
        ConfigurationError: it is neither None nor seconds from 0.
    """
    if timeout is None:
        return 0.0
    seconds = in_seconds(timeout)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
        raise ConfigurationError(
            f"timeout is None (at once), seconds from 0, or math.inf, not {timeout!r}"
        )
    return seconds


class Deadline:
    """When a call that waits for work gives up. Its time starts at the first use of `left`."""

    def __init__(self, timeout: Seconds | None) -> None:
        """Check ``timeout``: a duration from 0, ``math.inf``, or None, which does not wait.

        Raises:
            ConfigurationError: it is anything else.
        """
        self.timeout = 0.0 if timeout is None else check_timeout(timeout)
        self._end: float | None = None

    def left(self) -> Operation[float]:
        """Return the remaining seconds; 0 means give up."""
        if not self.timeout:
            return 0.0
        return self.left_at((yield Clock()))

    def left_at(self, now: float) -> float:
        """Return the seconds that remain at a time of the monotonic clock."""
        if self._end is None:
            self._end = now + self.timeout
        return max(0.0, self._end - now)


@dataclass
class Emptiness:
    """What a client remembers of a queue that its last request left empty.

    All its threads or tasks share it. It only decides what is asked first, so a race costs a
    request.
    """

    #: Whether nothing was left to take.
    is_known: bool = False
    #: Whether the queue had as many leases as permitted.
    is_limited: bool = False
    #: When to look again, in seconds of a monotonic clock.
    look_at: float = 0.0
    #: Longest sleep before then, in seconds, if something ends then and is not to be noticed a tick
    #: of the server late; 0: the server may end the wait late.
    sleep: float = 0.0
    #: Whether consumers share their looks, which takes a key with an estimate of their number.
    shares_looks: bool = True

    def lasts(self, deadline: Deadline) -> Operation[float]:
        """Return the seconds until the next look or the deadline; 0: look now."""
        if not self.is_known or not deadline.timeout:
            return 0.0
        now: float = yield Clock()
        return max(0.0, min(self.look_at - now, deadline.left_at(now)))


#: The deadline of a call that does not wait.
AT_ONCE = Deadline(None)


def seconds_of(block: float) -> float:
    """Return ``block`` seconds as BLMOVE and BLPOP take them."""
    return max(MIN_BLOCK, round(block, 3))


def blocks_until(left: float) -> float:
    """Return for how long the server may block if the wait must end in ``left`` seconds.

    0: sleep instead, since the server would end it up to `SERVER_TICK` late.
    """
    return left - SERVER_TICK if left > SERVER_TICK + MIN_BLOCK else 0.0


def shorten(limit: float, left: float) -> Operation[float]:
    """Return for how long to block, up to ``limit`` seconds, if something ends in ``left`` seconds.

    0: this has slept instead; look again.
    """
    if seconds := blocks_until(left):
        return min(limit, seconds)
    yield Sleep(min(left, SOON_POLL, limit))
    return 0.0


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


def check_waited(spec: Spec, answer: Any, seconds: float) -> Operation[None]:
    """Let time pass if a wait of up to ``seconds`` failed, so that the next one may succeed.

    A server out of memory rejects commands that may allocate, such as BLMOVE, while scripts that
    free memory still run. A failover or resharding ends waits with an error.

    Args:
        spec: of the queue.
        answer: to the blocking command: its reply, or its error.
        seconds: as sent.

    Raises:
        ResponseError: it will never succeed; translated by ``spec``.
    """
    if isinstance(answer, OutOfMemoryError):
        yield Sleep(seconds)
    elif not isinstance(answer, Exception) or str(answer).startswith("UNBLOCKED"):
        return
    elif isinstance(answer, ResponseError) and not isinstance(answer, (AskError, *TEMPORARY)):
        yield from spec.raise_for_reply(answer)
    else:
        yield Sleep(min(seconds, FIRST_PAUSE))


def raise_unknown(answer: Exception, waited: Any, request: Request) -> None:
    """Raise an error if a request that was sent with a wait may have been applied.

    If the wait itself has no reply, its connection was lost while nothing came: in all likelihood
    nothing was applied.

    Args:
        answer: why the request failed.
        waited: the answer to the blocking command before it.
        request: that failed.

    Raises:
        UnknownOutcome: the wait has ended, and the reply was lost.
    """
    is_lost = not isinstance(answer, ResponseError)
    if is_lost and (not isinstance(waited, Exception) or isinstance(waited, ResponseError)):
        pause_before_resend(answer, request, sent=True, attempt=0)
