"""The facts of push_front.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.space import body

FACTS = Facts(
    "push_front",
    calls=(("right", 0, body("new")), ("right", 1, body("listed"))),
    fewest=3,
    refused={
        "another end": ("middle", 0, "{}"),
        "1,001 bodies": ("right", 0, *["{}"] * 1001),
        "to move, two bodies": ("right", 2, "{}", "{}"),
    },
    named_arguments="some",
)


@FACTS.worst("200 x 0.9 MiB, and 1,000 onto an empty list")
def push_front_large(scene: Scene) -> Act:
    queue, text = scene.queue(), "x" * scene.size(LARGE)

    def push() -> None:
        queue.push_many([{"id": str(n)} for n in range(1000)], front=True)
        for n in range(200):
            queue.push({"id": f"m{n}", "p": text}, front=True)

    return push
