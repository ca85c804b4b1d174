"""The facts of push_unique.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.space import FUTURE, SECOND, body

NEW = ("new", body("new"), "")
FACTS = Facts(
    "push_unique",
    calls=(
        ("done", 0, SECOND, "now", 0, "right", *NEW),
        ("taken", 0, SECOND, "front", 0, "right", *NEW),
        ("done", 1, SECOND, "at", FUTURE, "right", "later", body("later"), "", *NEW),
        ("done", 0, SECOND, "delay", SECOND, "right", "listed", body("listed"), "-x|"),
    ),
    fewest=9,
    refused={
        "another mode": ("once", 0, SECOND, "now", 0, "right", *NEW),
        "another time": ("done", 0, SECOND, "soon", 0, "right", *NEW),
        "another end": ("done", 0, SECOND, "now", 0, "middle", *NEW),
        "another replace": ("done", 2, SECOND, "now", 0, "right", *NEW),
        "no message": ("done", 0, SECOND, "now", 0, "right"),
        "two thirds of a message": ("done", 0, SECOND, "now", 0, "right", *NEW, "id", "{}"),
        "101 messages": ("done", 0, SECOND, "now", 0, "right", *NEW * 101),
        "an id that pop would not use": ("done", 0, SECOND, "now", 0, "right", "", "{}", ""),
    },
    named_arguments="some",
)


@FACTS.worst("100 x 3,000 B now and later, beside 1,000,000 delayed and 1,000,000 ready")
def push_unique_many(scene: Scene) -> Act:
    scene.delayed(scene.many(1_000_000))
    scene.ready(scene.many(1_000_000))
    queue = scene.queue()
    messages = [{"id": f"u{n}", "x": "x" * 3000} for n in range(100)]

    def push_all() -> None:
        queue.push_many(messages, unique="done")
        queue.push_many(messages, unique="taken")
        for n, delay in enumerate((60, 90)):
            later = [{**each, "id": f"later{at}"} for at, each in enumerate(messages)]
            queue.push_many(later, unique="done", delay=delay, replace=n > 0)

    return push_all


@FACTS.worst("200 x 0.9 MiB, and replaced")
def push_unique_large(scene: Scene) -> Act:
    queue, text = scene.queue(), "x" * scene.size(LARGE)

    def push_each() -> None:
        for n in range(200):
            queue.push({"id": f"m{n % 50}", "p": text}, unique="done", delay=60, replace=True)

    return push_each
