"""Play an operation: answer its effects by hand, with no server."""

from typing import Any, TypeVar

from ackq.core.effects import Operation

T = TypeVar("T")


def play(steps: Operation[T], *answers: Any) -> tuple[list[Any], T]:
    """Return what the operation asked for, and its result.

    Each effect gets one of ``answers``; an exception is raised in the operation. There must be as
    many effects as answers.
    """
    asked: list[Any] = []
    left = iter(answers)
    try:
        asked.append(next(steps))
        for answer in left:
            if isinstance(answer, BaseException):
                asked.append(steps.throw(answer))
            else:
                asked.append(steps.send(answer))
    except StopIteration as ended:
        assert next(left, None) is None, "it ended early"
        return asked, ended.value
    raise AssertionError(f"it asks for more: {asked[-1]}")
