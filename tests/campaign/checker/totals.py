"""Judges the totals that a queue itself counted.

What they must be follows from the histories and from the dead letters, although any answer may be
lost: in the end nothing is stored, so each message that ever entered was acked or is dead, and the
last receive count of each tells how often it was delivered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .stories import POSSIBLE, History, Story


def judge_totals(history: History) -> Iterator[str]:
    """Yield what is wrong with the totals in the last event, if there are any."""
    left = history.left or {}
    counted: dict[str, Any] | None = left.get("totals")
    if not counted or left["messages"] or any(each.since is not None for each in history.faults):
        return
    dead: dict[str, int] = dict(left["dead"])
    entered = [story for story in history.stories.values() if _entered(story) or story.name in dead]
    receives = sum(_receives(story, dead) for story in entered)
    expected = {
        "pushed": len(entered),
        "acked": len(entered) - len(dead),
        "taken": receives + counted["released"],
        "dead": left["reasons"],
        "redriven": 0,
        "dropped": 0,
    }
    for name, number in expected.items():
        if counted[name] != number:
            yield f"{name} is {counted[name]}, not {number}"
    for name, verb in (("nacked", "nack"), ("released", "release")):
        # A client that got no reply asks again, and may be refused since it was applied before.
        possible = (*POSSIBLE, "refused")
        least, most = _settled(history, verb, ("ok",)), _settled(history, verb, possible)
        if not least <= counted[name] <= most:
            yield f"{name} is {counted[name]}, not {least} to {most}"
    # Of the deliveries that ended in no other way the lease ended. Then the message was delivered
    # again, or died.
    ended = receives - (len(entered) - len(dead)) - counted["nacked"]
    if not ended - len(dead) <= counted["returned"] <= ended:
        yield f"returned is {counted['returned']}, not {ended - len(dead)} to {ended}"


def _entered(story: Story) -> bool:
    return bool(story.deliveries) or any(push.state == "ok" for push, _ in story.pushes)


def _receives(story: Story, dead: dict[str, int]) -> int:
    """Return how many deliveries of a message were counted: all but those that were released."""
    if story.name in dead:
        return dead[story.name]
    return max((each.count or 0 for each in story.deliveries), default=0)


def _settled(history: History, verb: str, states: tuple[str, ...]) -> int:
    """Return how many deliveries were settled so, or may have been."""
    return sum(
        any(each.kind == verb and each.state in states for each in delivery.settles)
        for story in history.stories.values()
        for delivery in story.deliveries
    )
