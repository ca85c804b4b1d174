"""The facts of held/scan.lua: see `tests.facts.facts`."""

from ackq.queue import held_lists
from benchmarks.worst.scene import Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.example import CLAIM, SPEC
from tests.facts.facts import Facts

FACTS = Facts(
    "held/scan",
    calls=((0,),),
    changes_nothing=True,
    operation=lambda: held_lists.claims(SPEC),
    replies=[[b"0", 1, CLAIM, b"2", b"1"]] * 2,
    passes={"cursor": [b"0"]},
    fewest=1,
    refused={"cursor": ("x",)},
    mistakes=r"""
test_held.test_a_scan_returns_all_lists_with_times_and_rows
  no rows
  - redis.call('HGET', heldrows, page[2][i]) or '0'
  + '0'
""",
)


@FACTS.worst("10,000 held lists")
def scan(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(5, scene.queue().claims)
