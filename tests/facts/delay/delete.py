"""The facts of delay/delete.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import of, taken
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad, cut

GOOD = ("", 1, 1, 1, "k")
FACTS = Facts(
    "delay/delete",
    calls=(GOOD,),
    fewest=1,
    refused={"a word behind": (*GOOD, "errors")}
    | cut(GOOD, 2, 3, 4)
    | bad(GOOD, {1: (0, 2, "x"), 2: (-1, 2**53, "nan"), 3: (0, 2, 4001)}),
    mistakes=r"""
delay.test_counts.test_a_take_and_a_delete
  counts what was deleted before
  -   count_up(first, 'acked', deleted)
  - end
  +   count_up(first, 'acked', deleted)
  + end
  + count_up(3, 'acked', #held + #refused - reply[1])
""",
)


@FACTS.worst("1,000 x 0.9 MiB")
def delete_large(scene: Scene) -> Act:
    held, queue = taken(scene, 1000, scene.size(LARGE)), of(scene)
    return lambda: queue.delete(*held)


@FACTS.worst("100,000 of 1,000,000, extended")
def delete_deep(scene: Scene) -> Act:
    held = taken(scene, scene.many(1_000_000), receives=3)[: scene.many(100_000)]
    queue = of(scene)
    queue.extend(*held, timeout=3600)
    return lambda: queue.delete(*held)
