"""The facts of push_once.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
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
    fewest=7,
    refused={
        "no message": (1000, "now", 0, "right"),
        "two messages and one marker": (1000, "now", 0, "right", *["id", "{}", ""] * 2),
        "another time": (1000, "soon", 0, "right", "id", "{}", ""),
        "another end": (1000, "now", 0, "middle", "id", "{}", ""),
    },
    named_arguments="some",
    mistakes=r"""
test_push_once.test_messages_for_one_time_keep_the_order_of_their_pushes
  one time for all
  - or behind(delayed, due, score_of(due))
  + or due
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
