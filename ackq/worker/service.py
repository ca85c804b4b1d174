"""What a worker does beside its handlers: services with a start and an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ackq.worker.effects import Bell, Routine
from ackq.worker.state import State


class Service(Protocol):
    """A part of a worker. It is made with its settings, and begins when the worker runs."""

    def start(self, state: State, bell: Callable[[], Bell]) -> list[Routine[None]]:
        """Begin. Return the routines to run, each in a thread or task of its own.

        Args:
            state: of the worker.
            bell: makes a bell for a routine.
        """

    def end(self) -> None:
        """Let the routines end soon. Safe to call from any thread."""
