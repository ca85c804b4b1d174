"""The facts of find.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "find",
    calls=((1, "later", "later", "mine"), (0, "due", "expired")),
    changes_nothing=True,
    fewest=2,
    refused={
        "a text too long": (1, "x" * 4097, "key"),
        "an empty text": (1, "", "key"),
        "no key": (1, "text"),
        "1,001 keys": (0, *["key"] * 1001),
    },
    named_arguments="some",
)


@FACTS.worst("1,000 x 0.9 MiB in flight")
def find_large(scene: Scene) -> Act:
    scene.leased(1000, scene.size(LARGE), scene.far)
    queue = scene.queue()
    return lambda: queue.search({"customer": 1}, within=1000)


@FACTS.worst("one of 3,000,000 in flight")
def find_leased(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.leased(count, score=scene.far, step=1)
    queue = scene.queue()
    return times(20, lambda: queue.find(f"m{count // 2:07d}"))
