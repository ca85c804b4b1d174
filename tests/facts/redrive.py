"""The facts of redrive.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.facts import Facts
from tests.facts.failures import dead_with_failures, with_failures

FACTS = Facts(
    "redrive",
    calls=((10, "", 0),),
    fewest=3,
    refused={"1001": (1, "", 0, *["1-1"] * 1001), "force": (1, "", 2)},
    named_arguments="some",
    mistakes=r"""
test_redrive.test_one_call_redrives_a_mebibyte_of_errors
  given: named=True
  errors cost nothing
""",
)


@FACTS.worst("16 x 64 MiB", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
@FACTS.worst("600,000 dead letters", count=600_000)
def redrive_deep(scene: Scene, count: int, size: int = 100) -> Act:
    scene.dead(scene.many(count), scene.size(size))
    return scene.queue().redrive


@with_failures(FACTS, "100")
def redrive_with_failures(scene: Scene, failure: bytes) -> Act:
    dead_with_failures(scene, scene.keys.dead, 100, failure)
    return scene.queue().redrive


@FACTS.worst("100,000 by name, all ids taken")
def redrive_named(scene: Scene) -> Act:
    count = scene.many(100_000)
    scene.dead(count)
    scene.delayed(count, score=scene.far)
    queue, letters = scene.queue(), scene.queue().dead_letters(count)
    return lambda: queue.redrive(entries=[letter.entry for letter in letters])
