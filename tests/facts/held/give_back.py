"""The facts of held/give_back.lua: see `tests.facts.facts`."""

from benchmarks.worst.claims import claimed
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from benchmarks.worst.taking import hold_lists, popping
from tests.facts.facts import Facts

FACTS = Facts(
    "held/give_back",
    calls=(
        ("front", "right"),
        ("back", "right"),
        ("delayed", "right"),
    ),
    fewest=2,
    mistakes=r"""
test_held.test_messages_for_one_time_keep_the_order_of_a_commit
  each step begins at the same time
  - or behind(delayed, due, score_of(due))
  + or due
""",
)


@FACTS.worst("1,000,000 in front of 1,000,000")
def give_back(scene: Scene) -> Act:
    count = scene.many(1_000_000)
    claims = claimed(scene, count)
    scene.ready(count)
    return claims.release


@FACTS.worst("16 x 64 MiB in front", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB in front", count=1000, size=LARGE)
def give_back_large(scene: Scene, count: int, size: int) -> Act:
    return claimed(scene, count, scene.size(size)).release


@FACTS.worst("100,000 behind, one score for all lists")
def give_back_behind(scene: Scene) -> Act:
    hold_lists(scene, 1000, 1, rows=max(1, scene.many(100_000) // 1000))
    return popping(scene.queue(), 1)


@FACTS.worst("100 x 0.9 MiB for later, all ids taken")
def give_back_large_later(scene: Scene) -> Act:
    scene.leased(100, 100, scene.far)
    return later(scene, 100, LARGE)


@FACTS.worst("16 x 32 MiB for later", count=16, size=32 * MIB)
@FACTS.worst("300,000 for later, one due time for all", count=300_000)
def later(scene: Scene, count: int, size: int = 100) -> Act:
    name = scene.keys.ready + b"STAGED:writer:1:task:delayed"
    line = f"redis.call('LPUSH', KEYS[1], '{scene.far}:' .. body)"
    count = scene.many(count)
    scene.fill(line, (name,), count, scene.size(size))
    scene.client.zadd(scene.keys.held, {name: 0})
    scene.client.hset(scene.keys.heldrows, name, count)
    return popping(scene.queue(), 1)
