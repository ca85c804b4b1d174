"""An operation that runs together with others, whose first requests are sent at once."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ackq.core.effects import Effect, Operation, Request
from ackq.core.retries import pause_before_resend

T = TypeVar("T")

#: Most requests that are sent at once: Redis still answers others within a few milliseconds.
TOGETHER = 100


class Run(Generic[T]):
    """An operation and its progress."""

    def __init__(self, steps: Operation[T]) -> None:
        self._steps = steps
        #: The effect that it asks for; None once it has ended.
        self.step: Effect | None = None
        #: What it returned or raised, once it has ended.
        self.result: T | Exception | None = None
        self.answer(None)

    @property
    def packable(self) -> bool:
        """Whether its request can be sent together with others."""
        return isinstance(self.step, Request) and self.step.confirm is None

    def answer(self, answer: Any) -> None:
        """Proceed to the next effect; an answer that is an exception is raised in the operation."""
        try:
            if isinstance(answer, Exception):
                self.step = self._steps.throw(answer)
            else:
                self.step = self._steps.send(answer)
        except StopIteration as stop:
            self.step, self.result = None, stop.value
        except Exception as error:
            self.step, self.result = None, error

    def failed(self, error: Exception, sent: bool) -> None:
        """Note that its request failed: it stays the next step if it may be sent again.

        Args:
            error: the reply, or why there is none.
            sent: whether any of the request may have reached the server.
        """
        assert isinstance(self.step, Request)
        try:
            pause_before_resend(error, self.step, sent, 0)
        except Exception as final:
            self.answer(final)

    def rest(self) -> Operation[None]:
        """Return the rest of the operation as one that a driver can run; it raises nothing."""
        while self.step is not None:
            try:
                answer = yield self.step
            except Exception as error:
                answer = error
            self.answer(answer)
