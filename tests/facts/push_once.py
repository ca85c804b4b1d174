"""The facts of push_once.lua: see `tests.facts.facts`."""

from ackq.queue import push
from ackq.queue.push_options import PushOptions
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts
from tests.queue.scripts.space import FUTURE, SECOND, body

FACTS = Facts(
    "push_once",
    calls=(
        (1000, "now", 0, "right", "new", body("new"), "new"),
        (1000, "delay", SECOND, "right", "new", body("new"), "new"),
        (1000, "at", FUTURE, "right", "mine", body("mine"), "mine"),
        (1000, "at", FUTURE, "right", "", b"body", ""),
        (1000, "front", 0, "right", "new", body("new"), "new"),
    ),
    operation=lambda: push.push(
        SPEC, {"id": "k"}, PushOptions(at=6.0, dedup="<marker>", dedup_window=60.0)
    ),
    replies=[[0, 1, b"id"]],
    passes={
        "window": [60_000],
        "when": ["at"],
        "due": [6_000_000],
        "pop_from": ["right"],
        "messages": ["k", b'{"id":"k"}', "k"],
    },
    fewest=7,
    refused={
        "no message": (1000, "now", 0, "right"),
        "two messages and one marker": (1000, "now", 0, "right", *["id", "{}", ""] * 2),
        "another time": (1000, "soon", 0, "right", "id", "{}", ""),
        "another end": (1000, "now", 0, "middle", "id", "{}", ""),
    },
    named_arguments="some",
    mistakes=r"""
test_push_once.test_what_could_not_be_stored_is_not_marked
  given: when="now", wrong=""
  stored before all types are checked
  - redis.call('LLEN', ready)
  + redis.call('SET', marker, '')
  + redis.call('LLEN', ready)
test_push_once.test_the_marker_lives_for_the_window_and_no_longer
  a marker that never expires
  - redis.call('SET', marker, id, 'PX', string.format('%.0f', window))
  + redis.call('SET', marker, id)
test_push_once.test_a_second_push_stores_nothing_and_returns_the_first_id
  pushes again
  - if first then
  + if false then
test_push_once.test_the_first_push_is_stored_and_marked
  the list expires with the marker
  - 'LPUSH', ready, body)
  + 'LPUSH', ready, body)
  +   redis.call('PEXPIRE', ready, window)
test_left_end.test_push_once_pushes_to_the_right_end_for_the_left
  always to the left end
  - pop_from == 'left' and 'RPUSH' or 'LPUSH'
  + 'LPUSH'
test_push_once.test_messages_for_one_time_keep_the_order_of_their_pushes
  one time for all
  - or behind(delayed, due, score_of(due))
  + or due
test_push_once.test_each_message_of_a_call_has_a_marker
  forgets what it marked
  - firsts[marker] = id
  one marker for all
  - local first = firsts[marker]
  + local first = firsts[KEYS[5]]
test_push_once.test_messages_of_a_call_for_later_keep_their_order
  one time for all of a call
  - math.min(due + later, LATEST_DUE)
  + due
test_push_once.test_a_marker_of_another_type_is_an_error_before_anything_is_stored
  reads the markers while it stores
  - firsts[marker] = redis.call('GET', marker)
  + firsts[marker] = false
test_push_once.test_a_push_to_the_front_of_a_list_goes_before_it
  always onto the list
  - local to_front = when == 'front'
  + local to_front = false
test_push_once.test_a_push_to_the_front_of_an_empty_list_wakes_consumers
  always onto the hand-off list
  - when == 'front' and redis.call('EXISTS', ready) == 1
  + when == 'front'
  leaves no work behind
  - reply[1] = when == 'front' and on_list or 0
""",
)


@FACTS.worst("200 x 0.9 MiB, now and later")
def push_once_large(scene: Scene) -> Act:
    queue, text = scene.queue(), "x" * scene.size(LARGE)

    def push() -> None:
        for n in range(200):
            queue.push({"id": f"m{n}", "p": text}, dedup=f"a{n}", delay=60 * (n % 2) or None)

    return push


@FACTS.worst("500 messages, now and later")
def push_once_many(scene: Scene) -> Act:
    queue = scene.queue()
    messages = [{"id": f"m{n}"} for n in range(500)]

    def push() -> None:
        for delay in (None, 60):
            marks = [f"{delay}:{n}" for n in range(500)]
            queue.push_many(messages, dedup=marks, delay=delay)

    return push
