"""The facts of oldest.lua: see `tests.facts.facts`."""

from ackq.queue import inspection
from benchmarks.worst.ready import in_every_place
from benchmarks.worst.scene import LARGE, NAME, Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.example import SPEC
from tests.facts.facts import Facts

FACTS = Facts(
    "oldest",
    calls=(("right", "specversion", "created"),),
    changes_nothing=True,
    operation=lambda: inspection.oldest_ready(SPEC),
    replies=[[1, 0, 0, b""]],
    passes={"pop_from": ["right"], "member": ["specversion"], "other": ["specversion"]},
    mistakes=r"""
test_oldest.test_of_redelivered_and_due_messages_the_earliest_counts
  the latest counts
  - math.min(since, tonumber(score) or math.huge)
  + math.max(since < math.huge and since or 0, tonumber(score) or 0)
  running leases count
  - backup, '-inf', now_text
  + backup, '-inf', '+inf'
  delayed messages count
  - delayed, '-inf', now_text
  + delayed, '-inf', '+inf'
  running claims count
  - held, '-inf', now_text
  + held, '-inf', '+inf'
  lists of delayed messages count
  - string.sub(lists[i], -8) ~= ':delayed'
  -     and tonumber(redis.call('HGET',
  + tonumber(redis.call('HGET',
  lists without messages count
  - tonumber(redis.call('HGET', heldrows, lists[i]) or 0) > 0
  + true
test_oldest.test_a_list_that_came_back_without_a_time_is_ready_since_an_unknown_time
  a list without a time is ready since 1970
  - tonumber(lists[i + 1]) > 0
  + true
  a list without a time is not ready
  - listed = listed or untimed
test_oldest.test_of_the_lists_the_message_that_is_taken_next_is_returned
  given: end="right"
  reads the other end
  - pop_from == 'left' and 0 or -1
  + pop_from == 'left' and -1 or 0
  given: end="left"
  does not know the left end
  - pop_from == 'left' and 0 or -1
  + -1
  given: end="right"
  the hand-off list comes last
  - redis.call('LINDEX', handoff, -1)
  -     or redis.call('LINDEX',
  + redis.call('LINDEX',
  reads the hand-off list from the left
  - 'LINDEX', handoff, -1
  + 'LINDEX', handoff, 0
test_oldest.test_of_messages_that_were_moved_aside_the_first_one_of_any_group_counts
  those on the list come first
  - if parked and redis.call('ZCARD', parked) > 0 then
  + if parked and redis.call('ZCARD', parked) > 0 and not listed then
  the last group counts
  - if at < time then
  + if at > 0 then
  long bodies cost nothing
  - bytes < BODY_BUDGET
  + bytes >= 0
  one group too many
  - walked < WALKED
  + walked <= WALKED
  the time of the message is needed
  - body, listed = first, #first
  + body, listed = first, true or #first
test_oldest.test_a_body_without_a_time_or_too_long_is_not_returned
  returns bodies of any length
  returns bodies that need not have a time
  a part of a name counts
  - '"' .. name .. '"'
  + name
  only the last name counts
  - has(body, member) or has(body,
  + has(body,
""",
)


@FACTS.worst("1,000,000 in every place")
def oldest_deep(scene: Scene) -> Act:
    in_every_place(scene, scene.many(1_000_000))
    return times(20, scene.queue().oldest_ready)


@FACTS.worst("10,000 lists came back, a body of 0.9 MiB")
def oldest_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), 1)
    scene.client.lpush(NAME, b'{"created": "%s"}' % (b"x" * scene.size(LARGE)))
    return times(5, scene.queue().oldest_ready)
