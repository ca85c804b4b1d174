"""What a task does with a message that failed, came too early or too late: settings of `task`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ackq.config import Seconds, check_integer, check_seconds, in_seconds
from ackq.errors import ConfigurationError
from ackq.setting_types import check_fields
from ackq.worker.policy import Backoff
from ackq.worker.verdicts import Release, leaves_of

#: Types of exceptions, as ``except`` takes them.
Exceptions = tuple[type[BaseException], ...]


class Later(Release):
    """Do the task again after a delay. The delivery does not count. Raise it or return it.

    Args:
        delay: seconds until the message is ready again.
        group: as in `Release`. Defaults to False.
    """

    def __init__(self, delay: Seconds, *, group: bool = False) -> None:
        super().__init__(delay, group=group)


@dataclass(frozen=True, slots=True)
class Retry:
    """Which exceptions of a task are retried, and when.

    A message whose task raised another exception goes to the dead letters at once. An exception
    group, such as one of `asyncio.TaskGroup`, is retried if all exceptions in it are.
    """

    #: Exceptions to retry. Defaults to all.
    on: Exceptions = (BaseException,)
    #: Exceptions not to retry, although ``on`` has them.
    never: Exceptions = ()
    #: How long the message waits. Defaults to the worker's backoff.
    delays: Backoff | None = None

    def __post_init__(self) -> None:
        """Check the types.

        Raises:
            ConfigurationError: ``on`` or ``never`` is not a tuple of exceptions, or ``delays`` is
                no `Backoff`.
        """
        for name, kinds in (("on", self.on), ("never", self.never)):
            if not isinstance(kinds, tuple) or not all(map(_is_exception, kinds)):
                raise ConfigurationError(
                    f"Retry({name}=…) is a tuple of exceptions, as in (OSError,), not {kinds!r}"
                )
        check_fields(self, "retry.")

    def is_final(self, error: BaseException) -> bool:
        """Return whether a message whose task raised this is not retried."""
        leaves = [*leaves_of(error)]
        never = any(isinstance(each, self.never) for each in (error, *leaves))
        return never or not (
            isinstance(error, self.on) or all(isinstance(each, self.on) for each in leaves)
        )


@dataclass(frozen=True, slots=True)
class Breaker:
    """After ``failures`` in a row, the messages of a task wait for ``pause`` seconds, uncounted.

    After the pause, the next failure starts another one, until the task has succeeded. Each process
    counts for itself.
    """

    #: Failures in a row, 1 to 1,000,000.
    failures: int
    #: Seconds.
    pause: Seconds

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        check_fields(self, "breaker.")
        check_integer(self.failures, "breaker.failures", 1, 1_000_000)
        check_seconds(self.pause, "breaker.pause")


@dataclass(slots=True)
class Circuit:
    """The state of a breaker in this process. Any thread may call any method."""

    breaker: Breaker
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _failures: int = 0
    _until: float = 0.0

    def wait(self) -> float:
        """Return for how many seconds the messages of the task still pause; 0 if they do not."""
        return max(0.0, self._until - self.clock())

    def ended(self, error: BaseException | None) -> bool:
        """Record how a call ended. Return whether a pause begins."""
        if error is None:
            self._failures = 0
            return False
        self._failures += 1
        if self._failures < self.breaker.failures or self.wait():
            return False
        self._until = self.clock() + in_seconds(self.breaker.pause)
        return True


def _is_exception(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
