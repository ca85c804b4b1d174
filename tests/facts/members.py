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
  assigns twice
  - or tonumber(redis.call('HGET', group, 'assigned')) == generation then
  + then
  keeps former owners
  - redis.call('HDEL', owners, share)
membership.test_scripts.test_one_member_at_a_time_computes_the_assignment
  lets the next one wait
  - redis.call('HDEL', group, 'assigning')
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
membership.test_scripts.test_a_session_that_left_is_fenced_and_the_others_hear_of_it
  lets a session that ended go on
  - if not mine and joins == '0' then
  + if false then
membership.test_scripts.test_another_number_of_partitions_is_refused_while_others_are_there
  any number of partitions
  - common ~= shares and others > 0
  + false
  keeps the owners of another number
  - redis.call('DEL', owners)
membership.test_scripts.test_a_session_that_ended_is_removed_and_changes_the_generation
  keeps sessions that ended
  - redis.call('ZREM', members, ended)
  does not count an ended session as a change
  - ended)
  -     changed = true
  + ended)
membership.test_scripts.test_a_reply_is_no_longer_than_it_has_to_be
  waits for its own end
  - nearest[i] ~= session and wait < 0
  + wait < 0
  lists all sessions
  - 'ZREVRANGE', members, 0, 9999
  + 'ZRANGE', members, 0, -1
  lists the sessions that end first
  - 'ZREVRANGE', members
  + 'ZRANGE', members
  gives a member the partitions of all
  - owned[i] == session
  + true
  counts no members
  - redis.call('ZCARD', members), own
  + 0, own
  gives a known assignment again
  - if known == generation and assigned == generation
  + if false
membership.test_scripts.test_one_member_at_a_time_computes_the_assignment
  lets all compute at once
  - assigning > 0 and assigning <= 50000
  + false
  waits too long
  - now + 50000
  + now + 500000
  waits for a time that is far
  -  and assigning <= 50000
membership.test_clock.test_a_step_ends_nobodys_session_early
  ends sessions early after a step
  - if step > 0 then
  + if false then
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
    mistakes=r"""
membership.test_scripts.test_a_session_that_left_is_fenced_and_the_others_hear_of_it
  keeps the session
  - redis.call('ZREM', KEYS[1], ARGV[1]) == 0
  + false
  tells nobody
  - redis.call('HINCRBY', KEYS[2], 'generation', 1)
""",
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
