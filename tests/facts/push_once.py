"""The facts of push_once.lua: see `tests.facts.facts`."""

from __future__ import annotations

from ackq.queue import push
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts, Mistake
from tests.queue.scripts.space import FUTURE, SECOND, body

FACTS = Facts(
    "push_once",
    calls=(
        (1000, "new", body("new"), "now", 0, "new"),
        (1000, "new", body("new"), "delay", SECOND, "new"),
        (1000, "mine", body("mine"), "at", FUTURE, "mine"),
        (1000, "", b"body", "at", FUTURE, ""),
    ),
    operation=lambda: push.push(SPEC, {"id": "k"}, None, 6.0, "<marker>", 60.0, None),
    replies=[[1, b"id"]],
    passes={
        "window": [60_000],
        "id": ["k"],
        "body": [b'{"id":"k"}'],
        "when": ["at"],
        "due": [6_000_000],
        "key": ["k"],
        "pop_from": ["right"],
    },
    fewest=6,
    mistakes={
        "test_push_once.test_what_could_not_be_stored_is_not_marked": (
            Mistake(
                "marked before pushed",
                "if when == 'now' then\n",
                "redis.call('SET', marker, id, 'PX', window)\nif when == 'now' then\n",
                given={"when": "now", "wrong": ""},
            ),
        ),
        "test_push_once.test_the_marker_lives_for_the_window_and_no_longer": (
            Mistake(
                "a marker that never expires",
                "redis.call('SET', marker, id, 'PX', string.format('%.0f', window))",
                "redis.call('SET', marker, id)",
            ),
        ),
        "test_push_once.test_a_second_push_stores_nothing_and_returns_the_first_id": (
            Mistake("pushes again", "if first then", "if false then"),
        ),
        "test_push_once.test_the_first_push_is_stored_and_marked": (
            Mistake(
                "the list expires with the marker",
                "'LPUSH', ready, body)\n",
                "'LPUSH', ready, body)\n  redis.call('PEXPIRE', ready, window)\n",
            ),
        ),
        "test_left_end.test_push_once_pushes_to_the_right_end_for_the_left": (
            Mistake(
                "always to the left end", "pop_from == 'left' and 'RPUSH' or 'LPUSH'", "'LPUSH'"
            ),
        ),
        "test_push_once.test_messages_for_one_time_keep_the_order_of_their_pushes": (
            Mistake("one time for all", "or behind(delayed, due, score_of(due))", "or due"),
        ),
    },
)


@FACTS.worst("200 x 0.9 MiB, now and later")
def push_once_large(scene: Scene) -> Act:
    queue, text = scene.queue(), "x" * scene.size(LARGE)

    def push() -> None:
        for n in range(200):
            queue.push({"id": f"m{n}", "p": text}, dedup=f"a{n}", delay=60 * (n % 2) or None)

    return push
