"""Wait for a condition instead of sleeping for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], description: str, timeout: float = 30) -> T:
    """Return the first true value of ``condition()``; fail after ``timeout`` seconds.

    ``description`` ends the sentence "waited 30 s for …".
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s for {description}; last seen: {value!r}")
        time.sleep(0.005)
    return value
