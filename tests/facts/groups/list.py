"""The facts of groups/list.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "groups/list",
    calls=(*((which, 0, 100) for which in ("busy", "turns", "stopped", "limits", "pauses")),),
    changes_nothing=True,
    fewest=3,
    refused={
        "no such groups": ("all", 0, 100),
        "no cursor": ("busy", "x", 100),
        "a cursor below 0": ("busy", -1, 100),
        "a cursor of 65 bits": ("busy", "9" * 21, 100),
    },
    mistakes=r"""
test_groups.test_stopped_groups_are_listed_with_their_dead_letters
  lists others
  -   found = redis.call('HSCAN', stopped, cursor, 'COUNT', wanted)
  +   found = redis.call('ZSCAN', turns, cursor, 'COUNT', wanted)
""",
)

FILLED = "redis.call('HSET', KEYS[1], id, 1) redis.call('ZADD', KEYS[2], score, id)"
PARKED = (
    "redis.call('ZADD', KEYS[1], 0, string.format('%03.0f', #id) .. id .. string.rep('0', 16)"
    " .. body)"
)


@FACTS.worst("1,000,000 groups")
def list_groups(scene: Scene) -> Act:
    scene.fill(FILLED, scene.of_groups("BUSY", "TURNS"), scene.many(1_000_000))
    scene.fill(PARKED, scene.of_groups("PARKED"), scene.many(1_000_000))
    return times(1, lambda: scene.queue().groups(20, within=scene.many(50_000)))
