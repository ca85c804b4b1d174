"""The rules that a history must keep.

A rule is a function that yields violations in words. It is excused where a fault is documented to
undo answers (``since``), or to end leases and delays early (``clock``).

A busy machine must not break a rule. All that is known of a request is that it was applied between
its start and its end, if it was answered; so a rule compares the end of one with the start of
another, or times of the server itself. Whatever delays a process makes such an interval longer,
and the rule weaker.
"""

import bisect
import gc
import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .grouped import judge_groups, order_uncounted
from .stories import POSSIBLE, Delivery, Fault, History, Push, Settle, Story, Take
from .totals import judge_totals
from .verdict import Verdict

#: s by which times that servers report are rounded.
ROUNDED = 1e-5
#: Times that a consumer asks before it counts that nothing is delivered.
ASKED = 10


class Judge:
    """The rules, for one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._faults = history.faults
        self._ends = [fault.end for fault in history.faults]
        self._undoings = [fault for fault in history.faults if fault.since is not None]
        self._is_clock_set = any(fault.clock for fault in history.faults)
        #: When each process wrote last, if its supervisor gives back what it had when it died.
        self._lasted: defaultdict[str, float] = defaultdict(float)
        self._gives_back: bool = history.settings.get("gives_back", False)
        for delivery in self._all_deliveries() if self._gives_back else ():
            ends = [delivery.take.end, *(settle.begin for settle in delivery.settles)]
            self._lasted[delivery.take.by[0]] = max(self._lasted[delivery.take.by[0]], *ends)
        self.lease_seconds: float = history.settings["lease"]
        #: Whether a dead letter stops its group.
        self.dead_letters_stop: bool = history.settings.get("group_stops", False)
        #: When groups were resumed, by group.
        self.resumed = history.resumed
        self._fenced: bool = history.settings.get("fenced", True)
        self._dead = dict((history.left or {}).get("dead", ()))
        #: How many rows of Spark a message has become.
        self._rows: Counter[str] = Counter((history.left or {}).get("rows", ()))
        self._stored = (history.left or {}).get("messages", 0)
        self.verdict = Verdict(faults=history.struck)

    def judge(self) -> Verdict:
        for story in self._history.stories.values():
            if not self._is_plain(story):
                self._judge_story(story)
        own = itertools.chain(self.end(), self.order(), self.places(), self.unique())
        for rule, words in itertools.chain(own, judge_groups(self, self._history)):
            self.verdict.broke(rule, words)
        return self.verdict

    def _is_plain(self, story: Story) -> bool:
        """Count a message that was pushed, delivered and acked once; return whether it was one."""
        if len(story.pushes) != 1 or len(story.deliveries) != 1:
            return False
        push, delivery = story.pushes[0][0], story.deliveries[0]
        settles = delivery.settles
        if not (
            push.state == "ok"
            and not push.delay
            and delivery.sum == story.sum
            and len(settles) == 1
            and settles[0].kind == "ack"
            and settles[0].state == "ok"
            and not self._dead
            and not story.chosen
        ):
            return False
        self.verdict.pushed += 1
        self.verdict.delivered += 1
        self.verdict.acked += 1
        return True

    def _judge_story(self, story: Story) -> None:
        story.deliveries.sort(key=self._place)
        if self._gives_back and not self._is_clock_set:
            order_uncounted(story.deliveries)
        verdict = self.verdict
        states = {push.state for push, _ in story.pushes}
        verdict.pushed += "ok" in states
        verdict.unsure += "ok" not in states and "unknown" in states
        verdict.delivered += len(story.deliveries)
        verdict.redelivered += max(0, len(story.deliveries) - 1)
        settles = [settle for delivery in story.deliveries for settle in delivery.settles]
        verdict.acked += any(settle.kind == "ack" and settle.state == "ok" for settle in settles)
        verdict.refused += sum(settle.state == "refused" for settle in settles)
        for rule in RULES_OF_A_MESSAGE:
            for words in RULES[rule](self, story):
                verdict.broke(rule, f"{story.name}: {words}")

    def _place(self, each: Delivery) -> tuple[int, int, float, float]:
        """Return a delivery's place in the order in which the server delivered.

        Receive counts give it, until a fault undoes them or the message is redriven. Without
        counts, the ends of leases do, unless a clock was set. Replies may be read in another order.
        """
        end, redrives = each.take.end, _redrives(each)[0]
        undoings = sum(fault.begin <= end for fault in self._undoings)
        if each.count is None and each.until is not None and not self._is_clock_set:
            return undoings, redrives, each.until, end
        return undoings, redrives, each.count or 0, end

    def is_dead(self, story: Story) -> bool:
        """Whether a message is a dead letter in the end."""
        return story.name in self._dead

    @property
    def deaths(self) -> dict[str, int]:
        """The dead letters, and how often each was delivered."""
        return self._dead

    def saw(self, rule: str, times: int = 1) -> None:
        """Count what a rule compares: one that never has a subject shows nothing."""
        self.verdict.subjects.saw(rule, times)

    # --- excuses --------------------------------------------------------------------

    def undone(self, request: Push | Take | Settle, later: float = math.inf) -> Fault | None:
        """Return the fault that may have undone a request, as seen at a later time."""
        for fault in self._undoings:
            if (
                fault.since is not None
                and fault.since <= request.end
                and request.begin <= fault.end
                and fault.begin <= later
            ):
                return fault
        return None

    def clocked(self, first: float, later: float) -> bool:
        """Whether a clock was set between the two."""
        return any(
            fault.clock and fault.begin <= later
            for fault in itertools.islice(self._faults, bisect.bisect_left(self._ends, first), None)
        )

    def excused(self, request: Take | Settle, later: float) -> bool:
        """Whether a fault explains that a request had no lasting effect."""
        return self.clocked(request.begin, later) or self.undone(request, later) is not None

    def _pairs(self, story: Story) -> Iterator[tuple[Delivery, Delivery]]:
        """Yield consecutive deliveries whose order is known, and not undone in between."""
        known = [delivery for delivery in story.deliveries if len(set(_redrives(delivery))) == 1]
        for earlier, later in itertools.pairwise(known):
            is_counted = earlier.count is not None or earlier.until is not None
            if self._is_clock_set and self._gives_back and earlier.count == later.count:
                is_counted = False  # one of them did not count, and times do not tell which
            is_known = is_counted or earlier.take.end <= later.take.begin
            end = later.take.end
            if is_known and not (self.undone(earlier.take, end) or self.undone(later.take, end)):
                yield earlier, later

    # --- rules of one message -------------------------------------------------------

    def lost(self, story: Story) -> Iterator[str]:
        """Push-ok, and neither acked nor dead, although nothing is stored any more."""
        push = next((push for push, _ in story.pushes if push.state == "ok"), None)
        if push is None or self._stored or story.name in self._dead or self._rows[story.name]:
            return
        self.saw("lost")
        if self._was_settled(story):
            return
        if story.was("delete", *POSSIBLE) or story.was("drop", *POSSIBLE):
            return
        fault = None if push.kept else self.undone(push)
        if fault is not None:
            self.verdict.lost_as_expected += 1
            self.verdict.window = max(self.verdict.window, fault.begin - push.end)
        else:
            yield f"pushed, delivered {len(story.deliveries)} times, never acked"

    def _was_settled(self, story: Story) -> bool:
        """Whether an ack or a reject may have been applied to this message."""
        return any(delivery.had("ack", "reject") for delivery in story.deliveries)

    def phantom(self, story: Story) -> Iterator[str]:
        """Delivered, and never pushed; or its push was refused."""
        self.saw("phantom", bool(story.deliveries))
        if story.deliveries and not any(push.state in POSSIBLE for push, _ in story.pushes):
            yield "delivered, although no push stored it"

    def changed(self, story: Story) -> Iterator[str]:
        """Delivered with another body than pushed."""
        self.saw("changed", bool(story.pushes) * len(story.deliveries))
        if story.pushes and any(delivery.sum != story.sum for delivery in story.deliveries):
            yield "delivered with another body"

    def after_ack(self, story: Story) -> Iterator[str]:
        """Delivered after an answered ack, or although it was canceled or dropped."""
        gone = [each for kind in ("cancel", "delete", "drop") for each in story.was(kind, "ok")]
        for ended in _settles(story, "ack", "ok") + gone:
            self.saw("after ack", len(story.deliveries))
            for delivery in story.deliveries:
                is_late = delivery.take.begin > ended.end and not self.undone(
                    ended, delivery.take.end
                )
                if is_late and not (
                    ended.kind == "cancel"
                    and _was(story, ("redrive",), ended.begin, delivery.take.end)
                ):
                    late = delivery.take.begin - ended.end
                    yield f"{ended.kind} was answered, and it was delivered {late:.3f} s later"
        for ended in story.was("cancel", "ok"):
            for delivery in story.deliveries:
                is_known = all(each.state in ("ok", "refused") for each in delivery.settles)
                late_acks = [
                    each
                    for each in delivery.settles
                    if (each.kind, each.state) == ("ack", "ok") and each.begin > ended.end
                ]
                if (
                    is_known
                    and delivery.take.end < ended.begin
                    and late_acks
                    and not self.undone(ended, late_acks[0].end)
                ):
                    yield "it was canceled, and then acked by its holder"

    def lease(self, story: Story) -> Iterator[str]:
        """Delivered while another consumer held the lease."""
        for held, later in self._pairs(story):
            begin, end = held.take.begin, later.take.end
            if (
                held.may_have_had("nack", "release")
                or self._was_given_back(held, later)
                or self.clocked(begin, end)
                or _was(story, ("cancel", "redrive"), begin, end)
            ):
                continue
            self.saw("lease")
            if self._is_early(held, later):
                yield f"delivered to {later.take.by} while {held.take.by} held it"
            for settle in held.settles:
                # One that is not fenced may have extended the lease of the later delivery.
                known = later.take.end if self._fenced else later.take.begin
                is_early = settle.end < known and later.take.end < settle.begin + self.lease_seconds
                if (settle.kind, settle.state) == ("extend", "ok") and (
                    is_early and not self.undone(settle)
                ):
                    yield f"delivered to {later.take.by} although {held.take.by} had extended it"

    def _is_early(self, held: Delivery, later: Delivery) -> bool:
        if held.until is not None and later.until is not None and not held.had("extend"):
            # Each lease lasts at least its time by the server's clock, and to the time reported.
            return later.until < held.until + self.lease_seconds - ROUNDED
        return later.take.end < held.take.begin + self.lease_seconds

    def fencing(self, story: Story) -> Iterator[str]:
        """A settle succeeded after another consumer had received the message."""
        if not self._fenced:
            return
        for earlier, later in self._pairs(story):
            self.saw("fencing", len(earlier.settles))
            for settle in earlier.settles:
                is_stale = settle.state == "ok" and settle.begin > later.take.end
                if is_stale and not (self.undone(settle) or self.undone(later.take, settle.end)):
                    yield f"a stale {settle.kind} of {earlier.take.by} succeeded"

    def silent(self, story: Story) -> Iterator[str]:
        """A settle that did nothing was not reported to its holder as refused."""
        if not self._fenced or story.was("redrive", *POSSIBLE):
            return
        uses = [(_last_use(delivery), delivery) for delivery in story.deliveries]
        latest = heapq.nlargest(2, uses, key=lambda use: use[0].begin)
        for held in story.deliveries:
            for settle in held.settles:
                if settle.state != "gone":
                    continue
                self.saw("silent refusal")
                words = f"the {settle.kind} of {held.take.by} did nothing, and was not refused"
                # A topic refuses a lease that has ended only once another reader has it.
                if settle.kind == "extend" and not self._history.settings.get("readers"):
                    yield words
                if settle.kind not in ("ack", "reject"):
                    continue
                used = next((use for use, by in latest if by is not held), None)
                if used and used.begin > settle.end and not self.excused(settle, used.end):
                    yield words  # the message was still stored

    def acked_twice(self, story: Story) -> Iterator[str]:
        """Two acks were answered with success."""
        acks = sorted(_settles(story, "ack", "ok"), key=lambda each: each.end)
        self.saw("acked twice", len(acks))
        for first, second in itertools.pairwise(acks):
            if not (self.undone(first, second.end) or self.undone(second, second.end)):
                yield "acked twice"

    def holder(self, story: Story) -> Iterator[str]:
        """The rightful holder was refused."""
        if self._history.settings.get("sessions"):
            return  # a consumer that was silent for a while loses its leases
        for delivery in story.deliveries:
            since: Take | Settle = delivery.take
            for settle in sorted(delivery.settles, key=lambda one: one.begin):
                if settle.kind in ("nack", "release", "reject"):
                    break
                if (settle.kind, settle.state) == ("extend", "ok"):
                    since = settle
                is_early = settle.end < since.begin + self.lease_seconds
                self.saw("holder refused", is_early)
                if (
                    settle.state == "refused"
                    and is_early
                    and not (
                        self.excused(delivery.take, settle.end) or self.undone(since, settle.end)
                    )
                    and not _was(story, ("delete", "cancel"), delivery.take.begin, settle.end)
                ):
                    yield f"the {settle.kind} of {delivery.take.by} was refused within its lease"

    def count(self, story: Story) -> Iterator[str]:
        """The receive count did not rise."""
        for earlier, later in self._pairs(story):
            if earlier.count is None or later.count is None:
                continue
            if _redrives(earlier) != _redrives(later):
                continue  # it counts from 1 again
            self.saw("count")
            may_be_less = earlier.may_have_had("release") or self._was_given_back(earlier, later)
            if later.count <= earlier.count - may_be_less:
                yield f"received as number {earlier.count}, then as number {later.count}"

    def _was_given_back(self, earlier: Delivery, later: Delivery) -> bool:
        """Whether a process may have died with the earlier delivery, which then does not count."""
        return self._gives_back and self._lasted[earlier.take.by[0]] <= later.take.end

    def _all_deliveries(self) -> Iterator[Delivery]:
        for story in self._history.stories.values():
            yield from story.deliveries

    def early(self, story: Story) -> Iterator[str]:
        """Delivered before its delay was over."""
        possible = [push for push, _ in story.pushes if push.state in POSSIBLE]
        # If several pushes push a message that is stored once, any of them may have stored it.
        for push in sorted(possible, key=lambda each: each.begin + each.delay)[:1]:
            self.saw("early", bool(push.delay) * len(story.deliveries))
            for each in story.deliveries if push.delay else ():
                end = each.take.end
                if end < push.begin + push.delay and not self._hurried(story, push.begin, end):
                    yield f"pushed with a delay of {push.delay} s, delivered before"
        for earlier, later in self._pairs(story):
            for settle in earlier.settles:
                is_early = settle.begin < later.take.end < settle.begin + settle.delay
                if (
                    (settle.kind, settle.state) == ("nack", "ok")
                    and is_early
                    and not self.undone(settle, later.take.end)
                    and not self._hurried(story, settle.begin, later.take.end)
                ):
                    yield f"returned with a delay of {settle.delay} s, delivered before"
        for given in story.was("reschedule", "ok"):
            for each in story.deliveries:
                begin, end = each.take.begin, each.take.end
                is_early = given.end <= begin and end < given.begin + given.delay
                if is_early and not self._hurried(story, given.begin, end, given):
                    yield f"rescheduled with a delay of {given.delay} s, delivered before"

    def _hurried(self, story: Story, begin: float, end: float, but: Settle | None = None) -> bool:
        """Whether a delay may have been over early: a clock was set, or an operator ended it."""
        kinds = ("run now", "reschedule", "redrive")
        return self.clocked(begin, end) or _was(story, kinds, begin, end, but)

    def dead(self, story: Story) -> Iterator[str]:
        """Dead, and acked; dead before its last permitted delivery; or handled twice after it.

        A worker tries a message again whose last permitted delivery ended with its process, once.
        """
        most = self._history.settings.get("max_receives")
        late = [each for each in story.deliveries if (each.count or 0) > (most or math.inf)]
        late = [each for each in late if not each.may_have_had("release")]
        if len(late) > 1 and not (self._undoings or story.was("redrive", *POSSIBLE)):
            yield f"handled {len(late)} times after {most} deliveries"
        if story.name not in self._dead:
            return
        count = self._dead[story.name]
        if any(delivery.had("reject") for delivery in story.deliveries):
            return
        self.saw("dead")
        is_late = count > (most or math.inf) and self._history.settings.get("spares", False)
        if count != most and not is_late and not story.was("cancel", *POSSIBLE):
            yield f"dead after {count} deliveries of {most}"
        for ack in _settles(story, "ack", "ok"):
            if not self.undone(ack):
                yield "acked, and dead"

    # --- rules of a run -------------------------------------------------------------

    def end(self) -> Iterator[tuple[str, str]]:
        """Everything can be taken and settled in the end, and nothing stays behind."""
        left, within = self._history.left, self._history.settings["drain_within"]
        if left is None:
            yield "stuck", "the queue was never drained"
            return
        if left["messages"]:
            yield "stuck", f"{left['messages']} messages are left"
        if (idle := self._idle()) > within:
            yield "stuck", f"for {idle:.0f} s nothing was delivered, although messages were left"
        for each in left["findings"]:
            yield "audit", each
        self.saw("stuck")
        for name, times in self._rows.items():
            self.saw("rows")
            if times > 1:
                yield "rows", f"{name} is in {times} rows"
            if not any(push.state in POSSIBLE for push, _ in self._history.story("", name).pushes):
                yield "phantom", f"{name} is in a row, although no push stored it"
            story = self._history.story("", name)
            if self._history.settings.get("rows") and _settles(story, "ack", "ok"):
                yield "acked twice", f"{name} was acked, and is in a row"
            if story.was("cancel", "ok") and not story.was("redrive", *POSSIBLE):
                yield "after ack", f"{name} was canceled, and is in a row"
        for each in left["keys"]:
            yield "audit", f"the key {each} is left"
        self.saw("totals", bool(left.get("totals")))
        for total in judge_totals(self._history):
            yield "totals", total

    def _idle(self) -> float:
        """Return how long a consumer asked in vain, although messages were stored."""
        longest = 0.0
        for takes in self._history.takes.values():
            for is_vain, run in itertools.groupby(takes, lambda each: not each.deliveries):
                asked = list(run) if is_vain else []
                if len(asked) >= ASKED:
                    longest = max(longest, asked[-1].begin - asked[0].end)
        return longest

    def order(self) -> Iterator[tuple[str, str]]:
        """First deliveries to one consumer come in the order in which a producer pushed."""
        if not self._history.settings.get("order"):
            return
        for takes in self._history.takes.values():
            last: dict[tuple[str, str], tuple[tuple[int, int], Take]] = {}
            for take in takes:
                for delivery in take.deliveries:
                    if not _in_order(delivery):
                        continue
                    push, at = delivery.story.pushes[0]
                    place = push.call, at
                    before, then = last.get(push.by, ((0, 0), take))
                    self.saw("order", push.by in last)
                    if place < before and not (self.excused(then, take.end) or self.undone(take)):
                        yield "order", f"{delivery.story.name} came after {before} of {push.by}"
                    last[push.by] = place, take

    def places(self) -> Iterator[tuple[str, str]]:
        """One message at each index of a topic, and no index without one."""
        places = self._history.places
        for index, seen in places.items():
            names = {name for _, _, name in seen}
            self.saw("place", len(seen) > 1)
            if len(names) > 1 and not any(self.undone(request) for request, _, _ in seen):
                yield "place", f"index {index} was given to {sorted(names)[:3]}"
        for reader in self._history.readers if places else ():
            read = {
                index for index, seen in places.items() if any(who == reader for _, who, _ in seen)
            }
            gaps = set(range(1, max(places) + 1)) - read
            if (
                gaps
                and not self._stored
                and not any(fault.since is not None for fault in self._faults)
            ):
                yield "gap", f"{reader} never read {sorted(gaps)[:5]}"

    def unique(self) -> Iterator[tuple[str, str]]:
        """No message is stored while another one of its id surely is: the part behind a "="."""
        if not self._history.settings.get("unique"):
            return
        stored: defaultdict[str, list[tuple[Push, float, str]]] = defaultdict(list)
        for story in self._history.stories.values():
            push = next((push for push, _ in story.pushes if push.state == "ok"), None)
            if push is not None and (push.kept or not self.undone(push)):
                gone = min(self._ends_of(story), default=math.inf)
                stored[story.name.partition("=")[2]].append((push, gone, story.name))
        for entries in stored.values():
            entries.sort(key=lambda entry: entry[0].begin)
            begins = [push.begin for push, _, _ in entries]
            for push, gone, name in entries:
                for later, _, other in entries[bisect.bisect_left(begins, push.end) :]:
                    self.saw("unique")
                    if later.begin >= gone:
                        break
                    if later.end <= gone:
                        yield "unique", f"{other} was stored while {name} was"

    def _ends_of(self, story: Story) -> Iterator[float]:
        """Yield the times from which a message may be settled or dead."""
        if story.name in self._dead:
            yield -math.inf  # it may have died after a delivery whose reply was lost
        for delivery in story.deliveries:
            for settle in delivery.settles:
                if settle.kind in ("ack", "reject") and settle.state != "fail":
                    yield settle.begin
        yield from (cancel.begin for cancel in story.was("cancel", *POSSIBLE))


def _redrives(delivery: Delivery) -> tuple[int, int]:
    """Return how often a message was redriven before a delivery: surely, and perhaps."""
    redrives, take = delivery.story.was("redrive", *POSSIBLE), delivery.take
    surely = sum(redrive.state == "ok" and redrive.end <= take.begin for redrive in redrives)
    return surely, sum(redrive.begin <= take.end for redrive in redrives)


def _was(
    story: Story, kinds: tuple[str, ...], begin: float, end: float, but: Settle | None = None
) -> bool:
    """Whether an operator may have done something of these kinds within a time.

    What was not answered may be done later.
    """
    return any(
        each.begin <= end and (begin <= each.end or each.state == "unknown") and each is not but
        for kind in kinds
        for each in story.was(kind, *POSSIBLE)
    )


def _last_use(delivery: Delivery) -> Take | Settle:
    """Return the last request that shows that the message was stored when it was sent."""
    uses: list[Take | Settle] = [delivery.take]
    uses += [settle for settle in delivery.settles if settle.state == "ok"]
    return max(uses, key=lambda each: each.begin)


def _settles(story: Story, kind: str, state: str) -> list[Settle]:
    return [
        settle
        for delivery in story.deliveries
        for settle in delivery.settles
        if settle.kind == kind and settle.state == state
    ]


def _in_order(delivery: Delivery) -> bool:
    """Whether it is the first delivery of a message that was pushed once, to be ready at once."""
    pushes = delivery.story.pushes
    return (
        delivery.count == 1
        and len(pushes) == 1
        and pushes[0][0].state == "ok"
        and not pushes[0][0].delay
        and not any(each.may_have_had("release") for each in delivery.story.deliveries)
        and not delivery.story.was("redrive", *POSSIBLE)
        and not delivery.story.was("run now", *POSSIBLE)
    )


RULES: dict[str, Callable[[Judge, Story], Iterable[str]]] = {
    "lost": Judge.lost,
    "phantom": Judge.phantom,
    "changed": Judge.changed,
    "after ack": Judge.after_ack,
    "lease": Judge.lease,
    "fencing": Judge.fencing,
    "silent refusal": Judge.silent,
    "acked twice": Judge.acked_twice,
    "holder refused": Judge.holder,
    "count": Judge.count,
    "early": Judge.early,
    "dead": Judge.dead,
}
RULES_OF_A_MESSAGE = tuple(RULES)
#: What `Verdict.subjects` counts: the rules that need something to compare.
JUDGED = (
    *("lost", "phantom", "changed", "after ack", "lease", "fencing", "silent refusal"),
    *("acked twice", "holder refused", "count", "early", "dead", "stuck", "order", "place"),
    *("unique", "rows", "totals", "group order", "group limit", "group rate", "limit"),
    "group passed over",
)


def check(folder: Path) -> Verdict:
    """Judge the histories in ``folder``."""
    gc.disable()  # objects by the million, none of them garbage
    try:
        return Judge(History(folder)).judge()
    finally:
        gc.enable()
