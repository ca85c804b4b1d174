"""The facts of search.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "search",
    calls=(
        ("ready", 100, "right", "listed"),
        ("handoff", 100, "right", "handed"),
        ("held", 100, "right", "claimed"),
        ("backup", 0, "right"),
        ("delayed", 0, "right"),
        ("dead", "+", "right", "letter"),
    ),
    changes_nothing=True,
    fewest=3,
    refused={
        "a text too long": ("ready", 0, "right", "x" * 4097),
        "an empty text": ("ready", 0, "right", ""),
        "nine texts": ("ready", 0, "right", *"123456789"),
        "no text": ("ready", 0, "right"),
        "a text for a set": ("backup", 0, "right", "text"),
        "no entry": ("dead", "17", "right", "text"),
    },
    named_arguments="some",
    mistakes=r"""
test_find.test_a_list_is_read_one_two_four_at_a_time
  sixteen are read at once
  - passed, slice, largest = math.min(start, size), 0, 0, 0, 1,
  + passed, slice, largest = math.min(start, size), 0, 0, 0, SLICE,
test_find.test_in_the_middle_of_a_long_list_a_call_reads_fewer_and_longer_slices
  reads long slices everywhere
  - distance > DEEP and
  + distance >= 0 and
""",
)


@FACTS.worst("3,000,000 ready, none matches")
def search_all(scene: Scene) -> Act:
    scene.ready(scene.many(3_000_000))
    queue = scene.queue()
    return lambda: queue.search({"customer": 1}, within=None)


@FACTS.worst("the letters of the text everywhere: 16 x 0.9 MiB")
def search_nearly(scene: Scene) -> Act:
    line = "redis.call('LPUSH', KEYS[1], string.rep('customed', math.floor(#body / 8)))"
    scene.fill(line, (scene.keys.ready,), 16, scene.size(LARGE))
    queue = scene.queue()
    return lambda: queue.search({"customer": 1})


@FACTS.worst("16 x 8 MiB ready, by a stranger")
def search_strange(scene: Scene) -> Act:
    scene.ready(16, scene.size(8 * MIB))
    queue = scene.queue()
    return lambda: queue.search({"customer": 1})


@FACTS.worst("1,000,000 in flight, and 100,000 dead letters")
def search_sets(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000), score=scene.far)
    scene.dead(scene.many(100_000))
    queue = scene.queue()
    return lambda: queue.search({"customer": 1}, within=None)
