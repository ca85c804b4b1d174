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
membership.test_scripts.test_an_assignment_counts_once_and_only_for_its_generation
  takes an old generation
  - 'generation')) ~= generation
  + 'generation')) == 0
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
    mistakes=r"""
membership.test_scripts.test_a_reply_is_no_longer_than_it_has_to_be
  lists all sessions
  - 'ZREVRANGE', members, 0, 9999
  + 'ZRANGE', members, 0, -1
  counts no members
  - redis.call('ZCARD', members), own
  + 0, own
membership.test_scripts.test_one_member_at_a_time_computes_the_assignment
  lets all compute at once
  - assigning > 0 and assigning <= 50000
  + false
faults.test_failover.test_a_group_is_assigned_on_while_its_slot_moves
  ends the other sessions before it joins (error)
  - redis.call('ZADD', members, string.format('%.0f', now + timeout), session)
  + redis.call('ZREMRANGEBYSCORE', members, '-inf', over)
  + redis.call('ZADD', members, string.format('%.0f', now + timeout), session)
  reads the owners that it has removed (error)
  - common == shares and redis.call('HGETALL', owners) or {}
  + redis.call('HGETALL', owners)
""",
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
