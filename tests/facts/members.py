"""The facts of consumer groups: see `tests.facts.facts`."""

from ackq.membership.client import ConsumerGroup
from ackq.membership.operations import GroupSpec
from benchmarks.worst.scene import NAME, Act, Scene
from tests.facts.facts import Facts

#: The most partitions of a group, and the number of its sessions.
SHARES, SESSIONS = 1024, 1000
GROUP = GroupSpec.of(NAME, SHARES, 10.0).keys

ASSIGN = Facts(
    "members/assign",
    calls=((1, 1, "s"),),
    fewest=3,
    mistakes=r"""
faults.test_failover.test_a_group_is_assigned_on_while_its_slot_moves
  removes the former owners before it writes the new ones (error)
  - redis.call('HDEL', group, 'assigning')
  + redis.call('HDEL', group, 'assigning')
  + redis.call('DEL', owners)
""",
)
HEARTBEAT = Facts(
    "members/heartbeat",
    calls=(("s", 1, 1, 1, 0),),
    fewest=5,
    refused={"no session": ("", 1, 1, 1, 0)},
)
LEAVE = Facts(
    "members/leave",
    calls=(("s",),),
)


def crowded(scene: Scene, score: float, count: int = SESSIONS) -> ConsumerGroup:
    """Return a group with many sessions, which end at ``score``."""
    scene.fill("redis.call('ZADD', KEYS[1], score, id)", (GROUP.members,), count, score=score)
    return scene.own(ConsumerGroup(scene.client, NAME, SHARES, session_timeout=3600))


@HEARTBEAT.worst("1,000 sessions join 1,024 shares")
def join(scene: Scene) -> Act:
    members = [crowded(scene, scene.far)]
    members += [scene.own(ConsumerGroup(scene.client, NAME, SHARES)) for _ in range(10)]
    return lambda: [member.join() for member in members]


@HEARTBEAT.worst("10,000 sessions ended at once")
def ended(scene: Scene) -> Act:
    return crowded(scene, 1, 10 * SESSIONS).join


@ASSIGN.worst("1,024 shares among 1,000 sessions")
def assign(scene: Scene) -> Act:
    members = [crowded(scene, scene.far)]
    members += [scene.own(ConsumerGroup(scene.client, NAME, SHARES)) for _ in range(10)]
    return lambda: [member.join() for member in members]


@LEAVE.worst("one of 10,000 sessions")
def leave(scene: Scene) -> Act:
    members = crowded(scene, scene.far, 10 * SESSIONS)
    members.join()
    return members.leave
