"""Judges the totals that a queue itself counted.

What they must be follows from the histories and from the dead letters, although any answer may be
lost: in the end nothing is stored, so each message that ever entered was acked or is dead, and the
last receive count of each tells how often it was delivered.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from .stories import POSSIBLE, History, Story


def judge_totals(history: History) -> Iterator[str]:
    """Yield what is wrong with the totals in the last event, if there are any."""
    left = history.left or {}
    counted: dict[str, Any] | None = left.get("totals")
    if not counted or left["messages"] or any(fault.since is not None for fault in history.faults):
        return
    stories = list(history.stories.values())
    if any(story.was("delete", "unknown") or story.was("drop", "unknown") for story in stories):
        return
    dead: dict[str, int] = dict(left["dead"])
    entered = [story for story in stories if _entered(story) or story.name in dead]
    deleted = sum(bool(story.was("delete", "ok")) for story in stories)
    letters = sum(bool(story.was("drop", "ok")) for story in stories)
    receives = sum(_receives(story, dead) for story in entered)
    expected = {
        "pushed": len(entered),
        "acked": len(entered) - len(dead) - deleted - letters,
        "dropped": deleted,
    }
    redriven = _chosen(stories, "redrive", "ok"), _chosen(stories, "redrive", *POSSIBLE)
    if not redriven[0] <= counted["redriven"] <= redriven[1]:
        yield f"redriven is {counted['redriven']}, not {redriven[0]} to {redriven[1]}"
    if sum(counted["dead"].values()) - counted["redriven"] != len(dead) + letters:
        yield f"dead is {counted['dead']}, and {counted['redriven']} were redriven, not {len(dead)}"
    # The last receive count of a message is only known if it was acked or is dead.
    is_known = not deleted and not letters and not redriven[1]
    if is_known:
        expected["dead"] = left["reasons"]
        expected["taken"] = receives + counted["released"]
    for name, number in expected.items():
        if counted[name] != number:
            yield f"{name} is {counted[name]}, not {number}"
    for name, verb in (("nacked", "nack"), ("released", "release")):
        # A client that got no reply asks again, and may be refused since it was applied before.
        possible = (*POSSIBLE, "refused")
        least, most = _settled(history, verb, ("ok",)), _settled(history, verb, possible)
        if not least <= counted[name] <= most:
            yield f"{name} is {counted[name]}, not {least} to {most}"
    if not is_known:
        return
    # Deliveries that ended in no other way ended with their lease. Then the message was delivered
    # again, or died.
    ended = receives - (len(entered) - len(dead)) - counted["nacked"]
    if not ended - len(dead) <= counted["returned"] <= ended:
        yield f"returned is {counted['returned']}, not {ended - len(dead)} to {ended}"


def _entered(story: Story) -> bool:
    """Whether a message was ever stored."""
    gone = story.was("delete", "ok") or story.was("drop", "ok")
    return bool(story.deliveries or gone) or any(push.state == "ok" for push, _ in story.pushes)


def _chosen(stories: Sequence[Story], verb: str, *states: str) -> int:
    """Return how often an operator did this to a message, or may have."""
    return sum(len(story.was(verb, *states)) for story in stories)


def _receives(story: Story, dead: dict[str, int]) -> int:
    """Return how many deliveries of a message were counted: all but those that were released."""
    if story.name in dead:
        return dead[story.name]
    return max((delivery.count or 0 for delivery in story.deliveries), default=0)


def _settled(history: History, verb: str, states: tuple[str, ...]) -> int:
    """Return how many deliveries were settled so, or may have been."""
    return sum(
        any(settle.kind == verb and settle.state in states for settle in delivery.settles)
        for story in history.stories.values()
        for delivery in story.deliveries
    )
