"""The facts of oldest.lua: see `tests.facts.facts`."""

from benchmarks.worst.ready import in_every_place
from benchmarks.worst.scene import LARGE, NAME, Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts

FACTS = Facts(
    "oldest",
    calls=(("right", "specversion", "created"),),
    changes_nothing=True,
    mistakes=r"""
test_oldest.test_of_redelivered_and_due_messages_the_earliest_counts
  the latest counts
  - math.min(since, tonumber(score) or math.huge)
  + math.max(since < math.huge and since or 0, tonumber(score) or 0)
test_oldest.test_of_the_lists_the_message_that_is_taken_next_is_returned
  given: end="right"
  reads the other end
  - pop_from == 'left' and 0 or -1
  + pop_from == 'left' and -1 or 0
test_oldest.test_of_messages_that_were_moved_aside_the_first_one_of_any_group_counts
  those on the list come first
  - if parked and redis.call('ZCARD', parked) > 0 then
  + if parked and redis.call('ZCARD', parked) > 0 and not listed then
  long bodies cost nothing
  - bytes < BODY_BUDGET
  + bytes >= 0
  the time of the message is needed
  - body, listed = first, #first
  + body, listed = first, true or #first
test_oldest.test_a_body_without_a_time_or_too_long_is_not_returned
  a part of a name counts
  - '"' .. name .. '"'
  + name
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
