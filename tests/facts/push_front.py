"""The facts of push_front.lua: see `tests.facts.facts`."""

from ackq.queue import push
from ackq.queue.push_options import PushOptions
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts
from tests.queue.scripts.space import body

FACTS = Facts(
    "push_front",
    calls=(("right", 0, body("new")), ("right", 1, body("listed"))),
    operation=lambda: push.push(SPEC, {"id": "k"}, PushOptions(front=True)),
    replies=[0],
    passes={"pop_from": ["right"], "left": [0], "bodies": [b'{"id":"k"}']},
    fewest=3,
    refused={
        "another end": ("middle", 0, "{}"),
        "1,001 bodies": ("right", 0, *["{}"] * 1001),
        "to move, two bodies": ("right", 2, "{}", "{}"),
    },
    named_arguments="some",
    mistakes=r"""
test_push_front.test_messages_go_before_all_ready_ones_and_keep_their_order
  given: end="right"
  the last is taken first
  - redis.call('LPUSH', handoff, unpack(ARGV, 3))
  + redis.call('RPUSH', handoff, unpack(ARGV, 3))
test_push_front.test_an_empty_list_is_its_own_front
  given: end="right"
  wakes no consumer
  - if redis.call('LLEN', ready) > 0 then
  + if redis.call('LLEN', ready) >= 0 then
test_push_front.test_what_no_consumer_took_is_handed_over
  given: end="right"
  hands one over too few
  - is_right and size - place or place + 1
  + 1
  hands over to the front
  - 'RIGHT' or 'LEFT', 'LEFT')
  + 'RIGHT' or 'LEFT', 'RIGHT')
test_push_front.test_what_a_consumer_took_is_not_handed_over
  given: end="right"
  as many as were pushed
  - not place and 0 or is_right and size - place or place + 1
  + math.min(left, size)
test_push_front.test_a_later_message_is_not_taken_for_the_last
  given: end="right"
  looks through the whole list
  - 'MAXLEN', left
  + 'MAXLEN', 0
test_push_front.test_one_call_hands_over_a_mebibyte
  any number of bytes
  - rest > 0 and bytes < BODY_BUDGET
  + rest > 0
""",
)


@FACTS.worst("200 x 0.9 MiB, and 1,000 onto an empty list")
def push_front_large(scene: Scene) -> Act:
    queue, text = scene.queue(), "x" * scene.size(LARGE)

    def push() -> None:
        queue.push_many([{"id": str(n)} for n in range(1000)], front=True)
        for n in range(200):
            queue.push({"id": f"m{n}", "p": text}, front=True)

    return push
