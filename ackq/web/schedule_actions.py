"""What can be done with a schedule that is stored for a queue: pause, resume or remove it."""

from __future__ import annotations

from dataclasses import dataclass

from ackq.ops.kinds import opened
from ackq.ops.kinds.kind import Redis
from ackq.web.requests import Ask, Preview, short

#: The method of `ackq.queue.schedules_client.Schedules` for each action, and the result.
METHODS = {
    "pause_schedule": ("pause", "paused"),
    "resume_schedule": ("resume", "resumed"),
    "remove_schedule": ("remove", "removed"),
}


@dataclass(frozen=True, slots=True)
class ScheduleActions:
    """Acts on the schedule that `Ask.schedule` names."""

    client: Redis

    def perform(self, ask: Ask) -> str:
        """Perform the action, and return the result."""
        verb, done = METHODS[ask.action]
        with opened(self.client, ask.kind, ask.name, "schedules") as queue:
            existed = getattr(queue.client.schedules, verb)(ask.schedule)
        return done if existed else "nothing: the schedule no longer exists"


def sentence_of(ask: Ask) -> str:
    """Return an action as a sentence."""
    return f"{METHODS[ask.action][0].capitalize()} schedule {short(ask.schedule)}"


def preview_remove(ask: Ask) -> Preview:
    """Return what removing a schedule would do."""
    return Preview(
        ask,
        "Remove a schedule",
        f"Workers push nothing more for the schedule {short(ask.schedule)} of {short(ask.name)}."
        " Messages that were pushed stay.",
        "It cannot be restored; to stop it for a while, pause it.",
    )
