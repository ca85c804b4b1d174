"""The facts of groups/free.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import slots
from benchmarks.worst.scene import Act, Scene
from tests.facts.example import GROUPED
from tests.facts.facts import Facts

FACTS = Facts(
    "groups/free",
    calls=(("mine", "none"),),
    operation=lambda: slots.free(GROUPED, [b"k"]),
    replies=[1],
    passes={"keys": [b"k"]},
    refused={"too many": ("k",) * 1001},
    named_arguments="none",
    mistakes=r"""
test_groups_pop.test_free_frees_what_is_gone_and_nothing_else
  frees what is in flight
  - if redis.call('HEXISTS', context, key) == 0 and
  + if
  frees nothing
  -   free(gone)
  -
""",
)


@FACTS.worst("1,000 of as many groups")
def free_groups(scene: Scene) -> Act:
    queue = scene.queue(groups=Groups("customer"))
    line = (
        "redis.call('HSET', KEYS[1], id, '=0000000000000000' .. id)"
        " redis.call('HSET', KEYS[2], id, 1)"
    )
    scene.fill(line, scene.of_groups("FLIGHT", "BUSY"), 1000)
    return lambda: queue.execute(slots.free, [b"m%07d" % n for n in range(1, 1001)])
