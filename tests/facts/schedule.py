"""The facts of schedule.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.busy import Call
from tests.queue.scripts.space import FUTURE, SECOND

FACTS = Facts(
    "schedule",
    calls=(
        ("delay", SECOND, "new", b"body", "mine", b"body", "", b"body"),
        ("at", FUTURE, "new", b"body"),
    ),
    fewest=4,
    refused={
        "odd": ("delay", 0, "new", b"body", "odd"),
        "1001": ("delay", 0, *("new", b"body") * 1001),
    },
    named_arguments="some",
    given={
        "a delayed message": {"call": Call("schedule", ("delay", 1000000, "new", b"body"))},
        "many left": {"left": range(0, 3000, 40), "end": "cancel"},
    },
    mistakes=r"""
test_wrong_types.test_a_key_of_another_type_is_an_error_before_anything_is_changed
  given: a delayed message
  the body first, before it is known that the due time can be stored
  - redis.call('ZADD', delayed, unpack(scores))
  - redis.call('HSET', context, unpack(bodies))
  + redis.call('HSET', context, unpack(bodies))
  + redis.call('ZADD', delayed, unpack(scores))
test_schedule.test_messages_for_one_time_keep_the_order_of_their_pushes
  a later call begins at the same time
  - behind(delayed, due, due_text)
  + due
test_schedule.test_messages_with_one_delay_keep_their_order
  one time for all messages with a delay
  - due + (at - 3) / 2
  + due + (base == 'at' and (at - 3) / 2 or 0)
test_schedule.test_messages_for_other_times_are_not_held_up
  behind any message that is near
  - first + 2 * count + GAP - 1)
  + first + 4096)
test_schedule.test_a_message_for_a_past_time_waits_behind_the_rest_for_that_time
  given: taken=900, canceled=()
  in front of the rest of a row
  - last, text = time_of(head[2]), head[2]
  + last = last
  given: taken=900, canceled=(901,)
  in front of the rest of a row whose second was canceled
  - time_of(head[4]) - time_of(head[2]) < GAP
  + time_of(head[4]) - time_of(head[2]) <= 1
test_schedule.test_messages_for_different_past_times_keep_their_times
  any past time is the same
  - head[4] and time_of(head[4]) - time_of(head[2]) < GAP
  + head[2]
test_schedule.test_a_message_comes_behind_those_that_are_left_for_its_time
  given: left=[1, 2], end="cancel"
  in front of a row whose first was canceled
  - score_of(time + GAP - 1)
  + text
""",
)


@FACTS.worst("1,000 x 0.9 MiB")
def schedule_large(scene: Scene) -> Act:
    queue, text = scene.queue(), "x" * scene.size(LARGE)
    return lambda: queue.push_many([{"id": f"m{n}", "p": text} for n in range(1000)], delay=60)


@FACTS.worst("100,000 into 1,000,000 delayed, all ids taken")
def schedule_taken(scene: Scene) -> Act:
    queue, count = scene.queue(), scene.many(100_000)
    scene.delayed(scene.many(1_000_000), score=scene.far)
    return lambda: queue.push_many([{"id": f"m{n:07d}"} for n in range(1, count)], delay=60)


@FACTS.worst("1,000 without ids behind 300,000 of the same time")
def schedule_behind(scene: Scene) -> Act:
    queue, count, at = scene.queue(), scene.many(300_000), scene.far / 1_000_000
    scene.delayed(count, score=scene.far, step=1)
    return lambda: queue.push_many([b"no id"] * 1000, at=at)
