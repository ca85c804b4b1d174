"""Judges groups: their order, their limits, and whether each is served in turn.

A message belongs to the group that its push names. These rules need all messages of a group, so they
are rules of a run.

| rule | what breaks it |
|---|---|
| group order | with one message of a group at a time: a message is delivered although one of its group that was pushed before is neither settled nor dead (if a dead letter stops its group: neither settled, dropped, nor dead when the group was resumed), unless the same take returned that one first |
| group limit | more messages of a group are held at once than permitted; with one at a time, two takes hold messages of it |
| group rate | more messages of a group are delivered in a span of time than permitted |
| limit | more messages of the queue are held at once than permitted |
| group passed over | a group waits and could be served, while another is served again and again with messages that were pushed later |
"""  # noqa: E501

from __future__ import annotations

import bisect
import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .stories import POSSIBLE, Delivery, History, Story, Take

if TYPE_CHECKING:
    from .rules import Judge

#: Takes in which one other group may be served while a group waits: one that was due before, and
#: one that took its turn meanwhile.
TURNS = 2
#: The most deliveries that are examined before each delivery.
LOOKED_AT = 2000
#: Deliveries of a group of which each two are compared with its rate.
SPAN = 50
#: Seconds by which a lease may end later than was asked for.
JITTER = 0.066
#: What ends a lease.
_ENDS = ("ack", "nack", "release", "reject")


def judge_groups(judge: Judge, history: History) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with groups and limits, if the run had any."""
    groups: defaultdict[str, list[Story]] = defaultdict(list)
    for story in history.stories.values():
        if story.group is not None:
            groups[story.group].append(story)
    most = history.settings.get("group_in_flight", math.inf)
    for name, stories in groups.items():
        holds = list(_holds(judge, stories))
        judge.saw("group limit", len(holds))
        if most == 1:
            judge.saw("group order", len(stories) > 1)
            for words in _order(judge, stories):
                yield "group order", f"{name}: {words}"
            holds = _by_take(holds)
        for words in _over(holds, most):
            yield "group limit", f"{name}: {words}"
        if rate := history.settings.get("group_rate"):
            judge.saw("group rate", len(stories) > 1)
            for words in _too_fast(judge, stories, *rate):
                yield "group rate", f"{name}: {words}"
    if (limit := history.settings.get("max_in_flight")) is not None:
        judge.saw("limit")
        for words in _over(list(_holds(judge, history.stories.values())), limit):
            yield "limit", words
    if history.settings.get("group_turns"):
        for name, words in _passed_over(judge, groups):
            yield "group passed over", f"{name}: {words}"


# --- order ------------------------------------------------------------------------------


def _order(judge: Judge, stories: Sequence[Story]) -> Iterator[str]:
    """Yield deliveries of messages of a group before the end of one that was pushed earlier."""
    first = sorted(
        (story for story in stories if _has_place(judge, story)),
        key=lambda story: story.pushes[0][0].end,
    )
    later = sorted(
        (story for story in stories if story.deliveries and not _is_elsewhere(judge, story)),
        key=lambda story: _begin(story),
    )
    #: (end, story) of the messages pushed so far, those that ended last first.
    open_: list[tuple[float, int, Story]] = []
    number = 0
    for story in later:
        while number < len(first) and first[number].pushes[0][0].end < _begin(story):
            bisect.insort(open_, (-_ended(judge, first[number]), number, first[number]))
            number += 1
        for delivery in story.deliveries:
            for negative, _, other in open_:
                if -negative <= delivery.take.end:
                    break
                if other is not story and not _is_before(other, delivery):
                    yield f"{story.name} was delivered before the end of {other.name}"
                    break
    yield from _order_in_a_push(judge, stories)


def _order_in_a_push(judge: Judge, stories: Sequence[Story]) -> Iterator[str]:
    """Do the same for the messages of one push."""
    pushes: defaultdict[tuple[tuple[str, str], int], list[Story]] = defaultdict(list)
    for story in stories:
        if _has_place(judge, story):
            push = story.pushes[0][0]
            pushes[push.by, push.call].append(story)
    for together in pushes.values():
        together.sort(key=lambda story: story.pushes[0][1])
        latest: tuple[float, Story] | None = None
        for story in together:
            for delivery in story.deliveries if latest is not None else ():
                assert latest is not None
                if latest[0] > delivery.take.end and not _is_before(latest[1], delivery):
                    yield f"{story.name} was delivered before the end of {latest[1].name}"
            ended = _ended(judge, story)
            if latest is None or ended > latest[0]:
                latest = ended, story


def _is_elsewhere(judge: Judge, story: Story) -> bool:
    """Whether a message has no place in the order of pushes: it was delayed, or an operator's.

    A dead letter that stops its group keeps its place.
    """
    kept = ("redrive", "drop") if judge.dead_letters_stop else ()
    is_chosen = any(each.kind not in kept for each in story.chosen)
    return is_chosen or any(push.delay for push, _ in story.pushes)


def _has_place(judge: Judge, story: Story) -> bool:
    """Whether a message was surely stored once, at a known time."""
    if len(story.pushes) != 1 or _is_elsewhere(judge, story):
        return False
    push = story.pushes[0][0]
    return push.state == "ok" and judge.undone(push) is None


def _begin(story: Story) -> float:
    return min((push.begin for push, _ in story.pushes), default=-math.inf)


def _ended(judge: Judge, story: Story) -> float:
    """Return the earliest time from which the next of the group may have been delivered."""
    kinds = ("ack",) if judge.dead_letters_stop else ("ack", "reject")
    ends = [
        settle.begin
        for delivery in story.deliveries
        for settle in delivery.settles
        if settle.kind in kinds and settle.state in POSSIBLE
    ]
    if judge.dead_letters_stop:
        ends += [each.begin for each in story.was("drop", *POSSIBLE)]
        if judge.is_dead(story) or story.chosen:
            ends += _resumes(judge, story)
    elif judge.is_dead(story):
        ends.append(min((each.take.begin for each in story.deliveries), default=-math.inf))
    return min(ends, default=math.inf)


def _resumes(judge: Judge, story: Story) -> Iterator[float]:
    """Yield when a message may have been a dead letter without which its group went on."""
    for each in judge.resumed[story.group or ""]:
        if each.state in POSSIBLE and (each.end > _begin(story) or each.state == "unknown"):
            yield each.begin


def was_unseen(story: Story, died_after: int = 0) -> bool:
    """Whether a message was delivered to a consumer that died before it recorded the delivery."""
    counts = [each.count or 0 for each in story.deliveries]
    seen = sum(not each.may_have_had("release") for each in story.deliveries)
    return max([died_after, *counts]) > seen


def order_uncounted(deliveries: list[Delivery]) -> None:
    """Sort deliveries with the same receive count by the ends of their leases.

    The next lease of one that was given back ends later by more than the jitter.
    """
    for at in range(1, len(deliveries)):
        for later in range(at, 0, -1):
            one, other = deliveries[later - 1 : later + 1]
            if one.count != other.count or one.until is None or other.until is None:
                break
            if one.until <= other.until + JITTER:
                break
            deliveries[later - 1 : later + 1] = other, one


def _is_before(other: Story, delivery: Delivery) -> bool:
    """Whether the same take returned the other message first."""
    together = delivery.take.deliveries
    at = next(at for at, each in enumerate(together) if each is delivery)
    return any(each.story is other for each in together[:at])


# --- limits -----------------------------------------------------------------------------


class _Hold(NamedTuple):
    """A period in which a message was surely held."""

    begin: float
    end: float
    take: Take


def _holds(judge: Judge, stories: Iterable[Story]) -> Iterator[_Hold]:
    for story in stories:
        takes = sorted(each.take.begin for each in story.deliveries)
        chosen = [each.begin for each in story.chosen]
        for delivery in story.deliveries:
            take = delivery.take
            again = takes[bisect.bisect_right(takes, take.begin) :][:1]
            end = min([_surely_until(judge, delivery), *again, *chosen])
            excused = judge.undone(take) or judge.clocked(take.begin, end)
            if end > take.end and not excused:
                yield _Hold(take.end, end, take)


def _surely_until(judge: Judge, delivery: Delivery) -> float:
    """Return until when the lease of a delivery surely lasted."""
    end = delivery.take.begin + judge.lease_seconds
    for settle in sorted(delivery.settles, key=lambda each: each.begin):
        if settle.kind in _ENDS and settle.state != "fail":
            return min(end, settle.begin)
        # One that came later may have begun the lease again, after it had ended.
        if (settle.kind, settle.state) == ("extend", "ok") and settle.end <= end:
            end = max(end, settle.begin + judge.lease_seconds)
    return end


def _by_take(holds: Sequence[_Hold]) -> list[_Hold]:
    """Return for how long each take held any of its messages."""
    found: dict[int, _Hold] = {}
    for hold in holds:
        before = found.get(id(hold.take))
        end = hold.end if before is None else max(before.end, hold.end)
        found[id(hold.take)] = hold._replace(end=end)
    return list(found.values())


def _over(holds: Sequence[_Hold], most: float) -> Iterator[str]:
    """Yield the times at which more were held than permitted."""
    held: list[float] = []
    for hold in sorted(holds, key=lambda each: each.begin):
        while held and held[0] <= hold.begin:
            heapq.heappop(held)
        heapq.heappush(held, hold.end)
        if len(held) > most:
            yield f"{hold.take.by} took one while {len(held) - 1} were held"


def _too_fast(
    judge: Judge, stories: Sequence[Story], count: int, per: float, at_once: int
) -> Iterator[str]:
    """Yield the spans in which more messages were delivered than permitted.

    A delivery took place at some time of its take.
    """
    takes = sorted(
        (
            each.take
            for story in stories
            for each in story.deliveries
            if not judge.undone(each.take)
        ),
        key=lambda take: take.begin,
    )
    for at, first in enumerate(takes):
        ends: list[float] = []
        for later in takes[at : at + SPAN]:
            bisect.insort(ends, later.end)
            within = bisect.bisect_right(ends, later.end)
            seconds = later.end - first.begin
            if within > at_once + seconds * count / per + 1e-6:
                if not judge.clocked(first.begin, later.end):
                    yield f"{within} were delivered in {seconds:.3f} s"
                break


# --- turns ------------------------------------------------------------------------------


def _passed_over(judge: Judge, groups: dict[str, list[Story]]) -> Iterator[tuple[str, str]]:
    """Yield groups that waited while another was served again and again.

    A message lies behind all that were pushed before it. So once it is delivered, each of these was
    reached too: it was delivered, or its group waits for its turn.
    """
    firsts = sorted(
        (
            min(story.deliveries, key=lambda each: each.take.begin)
            for stories in groups.values()
            for story in stories
            if story.deliveries and not _is_elsewhere(judge, story)
        ),
        key=lambda each: each.take.begin,
    )
    begins = [each.take.begin for each in firsts]
    for name, stories in groups.items():
        free = -math.inf
        held: set[str] = set()  # messages whose last delivery is not surely over
        unseen = sorted(_unseen(judge, stories), reverse=True)
        deliveries = sorted(
            (each for story in stories for each in story.deliveries),
            key=lambda each: each.take.begin,
        )
        for delivery in deliveries:
            until = delivery.take.begin
            while unseen and unseen[-1][0] <= until:
                free = max(free, unseen.pop()[1])
            since = math.inf if held else max(free, _stored(judge, delivery.story))
            over = _surely_over(delivery)
            if over < math.inf:
                held.discard(delivery.story.name)
                free = max(free, over)
            else:
                held.add(delivery.story.name)
            if since >= until or judge.clocked(since, until):
                continue
            low, high = bisect.bisect_left(begins, since), bisect.bisect_left(begins, until)
            served: Counter[str] = Counter()
            takes: set[tuple[str, int]] = set()
            for other in firsts[max(low, high - LOOKED_AT) : high]:
                group = other.story.group
                behind = _begin(other.story) > _stored(judge, delivery.story)
                if group is None or group == name or not behind or other.take.end >= until:
                    continue
                if (group, id(other.take)) not in takes:
                    takes.add((group, id(other.take)))
                    served[group] += 1
            judge.saw("group passed over", len(served))
            for group, times in served.items():
                if times > TURNS:
                    yield (
                        name,
                        f"{delivery.story.name} waited while {group} was served {times} times",
                    )


def _unseen(judge: Judge, stories: Sequence[Story]) -> Iterator[tuple[float, float]]:
    """Yield the spans in which a consumer held a message, and it is not known when."""
    for story in stories:
        if was_unseen(story, judge.deaths.get(story.name, 0)):
            last = max(story.deliveries, key=lambda each: each.take.begin, default=None)
            yield _begin(story), _surely_over(last) if last else math.inf


def _stored(judge: Judge, story: Story) -> float:
    """Return the time from which a message was surely stored, or infinity."""
    return story.pushes[0][0].end if _has_place(judge, story) else math.inf


def _surely_over(delivery: Delivery) -> float:
    """Return the time from which a delivery surely no longer kept its group from being served."""
    ends = [each for each in delivery.settles if each.kind in _ENDS]
    applied = [each.end + each.delay for each in ends if each.state == "ok"]
    # The message was gone because of another settle, whose reply may be lost: with any delay.
    longest = max((each.delay for each in ends), default=0.0)
    found = [each.end + longest for each in ends if each.state == "gone"]
    return min(applied or found, default=math.inf)
