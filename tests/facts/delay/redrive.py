"""The facts of delay/redrive.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import STREAM, of
from benchmarks.worst.scene import DEAD, LARGE, MIB, Act, Scene
from tests.facts.facts import Facts
from tests.facts.failures import dead_with_failures, with_failures

FACTS = Facts(
    "delay/redrive",
    calls=((1, ""),),
    fewest=2,
    refused={"no entry": (1, "", "1-1", "x"), "too many": (1, "", *["1-1"] * 1001)},
    mistakes=r"""
test_budgets.test_a_delay_queue_redrives_a_mebibyte_of_errors
  errors cost nothing
""",
)


@FACTS.worst("16 x 64 MiB", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
@FACTS.worst("300,000 dead letters", count=300_000)
def redrive(scene: Scene, count: int, size: int = 100) -> Act:
    scene.fill(DEAD, (STREAM,), scene.many(count), scene.size(size))
    return of(scene).redrive


@with_failures(FACTS, "100")
def redrive_with_failures(scene: Scene, failure: bytes) -> Act:
    dead_with_failures(scene, STREAM, 100, failure)
    return of(scene).redrive
