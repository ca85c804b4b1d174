"""The rules by which a grouped queue delivers, without Redis: what `lua/groups` does, in short.

Time is left out: a lease may end, and a delay may be over, at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple


class Held(NamedTuple):
    """A message that was delivered and is not settled: it keeps a slot of its group."""

    place: str  #: "leased", "ended", "delayed", "due"; "deferred" behind another of its run
    owner: int
    seq: int


@dataclass
class Gate:
    """One queue. Messages are numbers, in the order of their pushes; ``groups`` names theirs."""

    groups: tuple[str, ...]
    limit: int = 1
    most: int = 9  #: leases of the queue at a time
    rated: bool = False  #: each group has a rate, with a burst of one
    budget: int = 2  #: messages of the lists that one call looks at
    listed: list[int] = field(default_factory=list)  #: taken from the right
    handoff: list[int] = field(default_factory=list)  #: taken from the right
    flight: dict[int, Held] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    parked: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    turns: list[str] = field(default_factory=list)
    runs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    woken: dict[int, int] = field(default_factory=dict)  #: message -> its seq
    stale: dict[int, str] = field(default_factory=dict)  #: slots of messages that are gone
    stops: bool = False  #: whether a dead letter stops its group
    letters: dict[int, int] = field(default_factory=dict)  #: dead letter that does so -> its seq
    due: list[int] = field(default_factory=list)  #: pushed for later: the last ones of ``groups``
    late: int = 0  #: how many those are
    spent: set[str] = field(default_factory=set)  #: groups that wait for their rates
    pushed: int = 0
    seq: int = 0

    def copy(self) -> Gate:
        return replace(
            self,
            listed=[*self.listed],
            handoff=[*self.handoff],
            flight={**self.flight},
            busy={**self.busy},
            parked={group: [*rest] for group, rest in self.parked.items()},
            turns=[*self.turns],
            runs={group: [*rest] for group, rest in self.runs.items()},
            woken={**self.woken},
            stale={**self.stale},
            letters={**self.letters},
            due=[*self.due],
            spent={*self.spent},
        )

    def state(self) -> tuple[object, ...]:
        """Return what tells this state from others. Only the order of the seqs counts."""
        return (
            *(tuple(each) for each in (self.listed, self.handoff, self.turns, self.due)),
            *(
                tuple(sorted((key, str(value)) for key, value in each.items()))
                for each in (
                    {message: held[:2] for message, held in self.flight.items()},
                    self.busy,
                    self._order(self.parked),
                    self._order(self.runs),
                    dict.fromkeys(self.woken),
                    self.stale,
                    dict.fromkeys(self.letters),
                )
            ),
            self.pushed,
            tuple(sorted(self.spent)),
        )

    @staticmethod
    def _order(rows: dict[str, list[tuple[int, int]]]) -> dict[str, list[int]]:
        return {group: [message for _, message in row] for group, row in rows.items()}

    # What happens to the queue.

    def push(self) -> None:
        if self.pushed < len(self.groups) - self.late:
            self.listed.insert(0, self.pushed)
        else:
            self.due.append(self.pushed)
        self.pushed += 1

    def hand_over(self) -> None:
        """A waiting consumer's BLMOVE."""
        self.handoff.insert(0, self.listed.pop())

    def bare_pop(self) -> None:
        self.listed.pop()

    def pop(self, owner: int, wanted: int, backwards: bool = False) -> list[int]:
        """Deliver up to ``wanted``; ``backwards``: of equal times, the last comes first."""
        call = _Call(self, owner, wanted)
        call.take_back(backwards)
        call.serve()
        call.read_lists()
        if not self.listed and not self.handoff:
            self.drop_woken()
        call.serve()
        call.extend_runs()
        if not call.taken and self.parked:
            for message in [*self.stale]:
                self._free(message, self.stale.pop(message))
            call.serve()
        self._wake()
        return call.taken

    def ack(self, message: int) -> None:
        del self.flight[message]
        self._free(message, self.groups[message])
        self._wake()

    def die(self, message: int) -> None:
        """A script that knows no groups deletes the message: its slot is freed later."""
        del self.flight[message]
        self.stale[message] = self.groups[message]

    def stop(self, message: int) -> None:
        """The message becomes a dead letter, which stops its group."""
        self.letters[message] = self.flight.pop(message).seq
        self._free(message, self.groups[message])
        self._wake()

    def redrive(self, message: int) -> None:
        self.park(message, self.letters.pop(message))
        self.turn(self.groups[message])
        self._wake()

    def drop(self, message: int) -> None:
        del self.letters[message]
        self.turn(self.groups[message])
        self._wake()

    def free(self, message: int) -> None:
        self._free(message, self.stale.pop(message))
        self._wake()

    def permit(self, group: str) -> None:
        """Time passes."""
        self.spent.remove(group)

    def move(self, message: int, place: str) -> None:
        self.flight[message] = self.flight[message]._replace(place=place)

    # What the scripts share.

    def is_free(self, group: str) -> bool:
        if group in map(self.groups.__getitem__, self.woken):
            return False  # it waits for its first message, which is on the list
        return not group or (self.busy.get(group, 0) < self.limit and not self.is_stopped(group))

    def is_stopped(self, group: str) -> bool:
        return group in map(self.groups.__getitem__, self.letters)

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def has_room(self) -> bool:
        leased = [held for held in self.flight.values() if held.place in ("leased", "ended")]
        return len(leased) < self.most

    def may_pass(self, group: str) -> bool:
        """Whether a message may be taken although others of its group may be parked."""
        return self.is_free(group) and not {group} & {*self.spent, *self.turns}

    @property
    def next_turn(self) -> str | None:
        """The group whose turn it is; those that wait for their rates are in TURNS, too."""
        return next((group for group in self.turns if group not in self.spent), None)

    def turn(self, group: str) -> None:
        """Put a group into TURNS exactly if it has parked messages and a slot; last in the row."""
        if group in self.turns:
            self.turns.remove(group)
        if self.parked.get(group) and self.is_free(group):
            self.turns.append(group)

    def park(self, message: int, seq: int) -> None:
        group = self.groups[message]
        self.parked.setdefault(group, []).append((seq, message))
        self.parked[group].sort()
        if group not in self.turns:
            self.turn(group)

    def unpark(self, group: str) -> tuple[int, int]:
        first = self.parked[group].pop(0)
        if not self.parked[group]:
            del self.parked[group]
        return first

    def _free(self, message: int, group: str) -> None:
        if not group:
            return
        self.busy[group] -= 1
        if not self.busy[group]:
            del self.busy[group]
        rest = [entry for entry in self.runs.pop(group, []) if entry[1] != message]
        if rest:
            self.runs[group] = rest
            first = rest[0][1]
            if first in self.flight and self.flight[first].place == "deferred":
                self.move(first, "due")
        self.turn(group)

    def drop_woken(self) -> None:
        """A bare RPOP took them."""
        for message in [*self.woken]:
            del self.woken[message]
            self.turn(self.groups[message])

    def _wake(self) -> None:
        """Move the message whose turn it is to the list: that wakes a consumer."""
        if self.next_turn is not None and not self.listed and not self.handoff:
            self.drop_woken()
            group = self.next_turn or ""
            self.turns.remove(group)
            seq, message = self.unpark(group)
            self.woken[message] = seq
            self.listed.append(message)


class _Call:
    """One call of pop."""

    def __init__(self, gate: Gate, owner: int, wanted: int) -> None:
        self.gate, self.owner, self.wanted = gate, owner, wanted
        self.taken: list[int] = []
        self.served = False

    @property
    def is_full(self) -> bool:
        return len(self.taken) >= self.wanted or not self.gate.has_room()

    def deliver(self, message: int, seq: int | None = None) -> None:
        group = self.gate.groups[message]
        if seq is None:
            seq = self.gate.next_seq() if self.gate.stops else 0
        if self.gate.rated and group:
            self.gate.spent.add(group)
        if message not in self.gate.flight and group:
            self.gate.busy[group] = self.gate.busy.get(group, 0) + 1
        self.gate.flight[message] = Held("leased", self.owner, seq)
        self.taken.append(message)

    def take_back(self, backwards: bool) -> None:
        """Deliver those whose lease has ended or whose delay is over. They have their slots."""
        gate = self.gate
        back = sorted(
            (m for m, held in gate.flight.items() if held.place in ("ended", "due")),
            reverse=backwards,
        )
        for message in back:
            is_ended = gate.flight[message].place == "ended"  # it keeps its room
            if len(self.taken) >= self.wanted or (self.is_full and not is_ended):
                continue
            if self.goes_home(message):
                group = gate.groups[message]
                gate.park(message, gate.flight.pop(message).seq)
                gate._free(message, group)
            elif self.must_follow(message):
                gate.move(message, "deferred")
            elif gate.groups[message] in gate.spent:
                gate.move(message, "delayed")
            else:
                self.deliver(message, gate.flight[message].seq)
        while gate.due and not self.is_full:
            message = gate.due.pop(0)
            if gate.next_turn is not None or not gate.may_pass(gate.groups[message]):
                gate.park(message, gate.next_seq())
            else:
                self.deliver(message)

    def goes_home(self, message: int) -> bool:
        """Whether its group is stopped, or an earlier message was redriven."""
        gate, group = self.gate, self.gate.groups[message]
        if not gate.stops or not group:
            return False
        parked = gate.parked.get(group, [])
        is_behind = gate.limit == 1 and parked and parked[0][0] < gate.flight[message].seq
        return gate.is_stopped(group) or bool(is_behind)

    def must_follow(self, message: int) -> bool:
        """Whether an earlier one of its run is not settled, or a later one is still leased."""
        run = self.gate.runs.get(self.gate.groups[message], [])
        others = [other for _, other in run if other != message and other not in self.taken]
        return any(
            other < message or self.gate.flight[other].place == "leased"
            for other in others
            if other in self.gate.flight
        )

    def serve(self) -> None:
        gate = self.gate
        while (group := gate.next_turn) is not None and not self.is_full:
            seq, message = gate.unpark(group)
            self.deliver(message, seq)
            gate.turn(group)
            self.served = True

    def read_lists(self) -> None:
        gate = self.gate
        for _ in range(gate.budget if gate.has_room() or self.taken else 0):
            source = gate.handoff or gate.listed
            if not source:
                return
            message = source.pop()
            group = gate.groups[message]
            if message in gate.woken:
                gate.park(message, gate.woken.pop(message))
                self.serve()
                continue
            if source is gate.listed:
                gate.drop_woken()
                self.serve()
            passes = gate.next_turn is None and gate.may_pass(group)
            if passes and self.is_full and not self.served:
                source.append(message)
                return
            if passes and not self.is_full:
                self.deliver(message)
            else:
                gate.park(message, gate.next_seq())
                self.served = True

    def extend_runs(self) -> None:
        """Give this consumer further messages of the groups that it alone has."""
        gate = self.gate
        if gate.limit > 1:
            return
        for group in dict.fromkeys(gate.groups[message] for message in [*self.taken]):
            while group in gate.parked and not self.is_full:
                mine = [m for m in self.taken if gate.groups[m] == group]
                is_mine = gate.busy.get(group, 0) == len(mine) and not gate.is_stopped(group)
                if not is_mine or group in gate.spent:
                    break
                run = gate.runs.setdefault(group, [])
                if not run:
                    run += [(gate.flight[mine[0]].seq, mine[0])]
                seq, message = gate.unpark(group)
                self.deliver(message, seq)
                run.append((seq, message))


def steps(gate: Gate) -> Iterator[tuple[str, Gate]]:
    """Yield everything that may happen next."""

    def after(name: str, *args: object) -> tuple[str, Gate]:
        other = gate.copy()
        getattr(other, name)(*args)
        return f"{name}{args}", other

    if gate.pushed < len(gate.groups):
        yield after("push")
    if gate.listed:
        yield after("hand_over")
        yield after("bare_pop")
    for owner in (1, 2):
        for wanted in (1, 3):
            yield after("pop", owner, wanted, wanted == 3 and owner == 2)
    for message, held in gate.flight.items():
        if held.place in ("leased", "ended"):
            yield after("ack", message)
            yield after("move", message, "delayed")
            yield after("move", message, "due")
            yield after("stop" if gate.stops and gate.groups[message] else "die", message)
        if held.place == "leased":
            yield after("move", message, "ended")
        if held.place in ("delayed", "deferred"):
            yield after("move", message, "due")
    for message in gate.stale:
        yield after("free", message)
    for group in gate.spent:
        yield after("permit", group)
    for message in gate.letters:
        yield after("redrive", message)
        yield after("drop", message)
