"""Join and leave a consumer group, send heartbeats, and compute the assignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ackq import scripts
from ackq.config import Seconds, check_integer, microseconds
from ackq.core.call import Keys, call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.names import check_name
from ackq.errors import ConfigurationError
from ackq.membership.assign import assign

#: Most partitions of one group.
MAX_PARTITIONS = 1024
#: Longest session in seconds.
MAX_SESSION = 3600.0
#: Heartbeats per session timeout, so that two may be lost.
HEARTBEATS = 3
#: Seconds between two heartbeats, so that members notice changes soon.
HEARTBEAT_INTERVAL = 1.0
#: Most heartbeats of all members per second. A larger group sends them less often.
HEARTBEAT_RATE = 1000
#: Seconds after which a new member asks again if another one computes the assignment; doubled
#: after each time.
ASK_AGAIN = 0.05


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """The keys of one group."""

    members: bytes
    group: bytes
    owners: bytes

    @classmethod
    def of(cls, name: str) -> GroupKeys:
        """Return the keys of group ``name``.

        Raises:
            QueueNameError: the name cannot be used.
        """
        check_name(name)
        return cls(*(f"{name}:{part}".encode() for part in ("members", "group", "owners")))

    def all(self) -> tuple[bytes, bytes, bytes]:
        """Return the keys in the order in which the scripts take them."""
        return self.members, self.group, self.owners


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """One group: its partitions, and how long a session lasts without a heartbeat."""

    name: str
    keys: GroupKeys
    partitions: int
    session_us: int

    @classmethod
    def of(cls, name: str, partitions: int, session_timeout: Seconds) -> GroupSpec:
        """Return the group after checking its settings.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        check_integer(partitions, "partitions", 1, MAX_PARTITIONS)
        session = microseconds(session_timeout, "session_timeout", MAX_SESSION)
        return cls(name, GroupKeys.of(name), partitions, session)

    def heartbeat_interval(self, members: int = 1) -> float:
        """Return the seconds between two heartbeats, unless another session ends sooner."""
        usual = max(HEARTBEAT_INTERVAL, members / HEARTBEAT_RATE)
        return min(usual, self.session_us / HEARTBEATS / 1_000_000)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The ``partitions`` that a session owns in ``generation``, among ``members`` sessions."""

    session: str
    generation: int
    partitions: tuple[int, ...]
    members: int


@dataclass(slots=True)
class Session:
    """A member's session in its group. It lasts as long as heartbeats come in time.

    Its name is the fencing token: a member whose session ended rejoins with a new name.
    """

    base: str
    incarnation: int = 1
    joined: bool = False
    assignment: Assignment | None = None
    #: Seconds until the next heartbeat: the interval, or less if another session ends sooner.
    next_heartbeat: float = 0.0
    #: Heartbeats since it joined that brought no assignment.
    asked: int = 0

    @property
    def name(self) -> bytes:
        """The name of this session in the group."""
        return f"{self.base}:{self.incarnation}".encode()

    def owns(self) -> tuple[int, ...]:
        """Return the partitions in the last known assignment."""
        return self.assignment.partitions if self.assignment else ()


def heartbeat(spec: GroupSpec, session: Session) -> Operation[Assignment]:
    """Join or stay in the group, and return the assignment of this session.

    The first member that notices a change of membership computes the assignment. Meanwhile the
    others keep theirs; a new member has none.
    """
    while True:
        # Other threads may send heartbeats too, so read the state once.
        incarnation, joined, name = session.incarnation, session.joined, session.name
        known = session.assignment
        reply = yield from _call(
            spec,
            "heartbeat",
            name,
            spec.session_us,
            spec.partitions,
            int(not joined),
            known.generation if known else 0,
        )
        status = reply[0]
        if status == b"fenced":
            # Another thread may notice this too; both choose the same new name.
            session.incarnation, session.joined = incarnation + 1, False
            session.assignment, session.asked = None, 0
            continue
        if status == b"shares":
            raise ConfigurationError(
                f"group {spec.name!r} has {reply[1]} partitions, not {spec.partitions}: give every"
                " member the same number, or stop them all to change it"
            )
        session.joined = True
        _, generation, assigned, wait = reply[:4]
        if assigned == generation:
            if len(reply) == 4 and known is not None:
                assignment = known
            else:
                mine = tuple(sorted(map(int, reply[5])))
                assignment = session.assignment = Assignment(
                    name.decode(), generation, mine, reply[4]
                )
            session.asked = 0
            _plan_next(spec, session, assignment.members, wait)
            return assignment
        if len(reply) == 4:
            if known is None:
                known = session.assignment = Assignment(name.decode(), 0, (), 1)
            _plan_next(spec, session, known.members, wait)
            if not known.generation:
                soon = ASK_AGAIN * 2 ** min(session.asked, 10)
                session.next_heartbeat = min(session.next_heartbeat, soon)
                session.asked += 1
            return known
        pairs: list[Arg] = []
        for partition, owner in assign(spec.partitions, reply[4], _owners(reply[5])).items():
            pairs += (partition, owner)
        yield from _call(spec, "assign", generation, *pairs)


def _plan_next(spec: GroupSpec, session: Session, members: int, wait: int) -> None:
    session.next_heartbeat = spec.heartbeat_interval(members)
    if wait >= 0:
        session.next_heartbeat = min(session.next_heartbeat, wait / 1_000_000)


def leave(spec: GroupSpec, session: Session) -> Operation[bool]:
    """End the session at once; return whether it was alive."""
    if not session.joined:
        return False
    left: int = yield from _call(spec, "leave", session.name)
    session.incarnation += 1
    session.joined, session.assignment = False, None
    return bool(left)


def _owners(flat: list[bytes]) -> dict[int, bytes]:
    return {int(partition): owner for partition, owner in zip(flat[::2], flat[1::2], strict=True)}


def _call(spec: GroupSpec, script: str, *args: Arg) -> Operation[Any]:
    keys = spec.keys.all()
    # All three may be repeated: only the first assignment counts, and leaving twice is harmless.
    request = Request(
        (len(keys), *keys, *args), script=scripts.load(f"members/{script}"), resend=True
    )
    types = dict(zip(keys, ("zset", "hash", "hash"), strict=True))
    return (yield from call(Keys(f"group {spec.name!r}", types), request))
