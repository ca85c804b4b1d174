"""The facts of drain.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, LISTED, MIB, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "drain",
    calls=((1000, "right"),),
    fewest=2,
)


@FACTS.worst("1,000 x 0.9 MiB in flight")
def drain_large(scene: Scene) -> Act:
    scene.held(1000, scene.size(LARGE))
    return scene.queue().drain


@FACTS.worst("16 x 32 MiB handed over and in flight")
def drain_larger(scene: Scene) -> Act:
    scene.fill(LISTED, (scene.keys.handoff,), 16, scene.size(32 * MIB))
    scene.held(16, scene.size(32 * MIB))
    return scene.queue().drain


@FACTS.worst("300,000 in flight and delayed")
def drain_deep(scene: Scene) -> Act:
    scene.held(scene.many(150_000))
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    scene.fill(line, (scene.keys.delayed, scene.keys.context), scene.many(150_000), first=200_000)
    return scene.queue().drain


@FACTS.worst("1,000 without bodies in front of 100,000")
def drain_without_bodies(scene: Scene) -> Act:
    scene.leased(scene.many(100_000))
    line = "redis.call('ZADD', KEYS[1], 9, id)"
    scene.fill(line, (scene.keys.backup,), 999, first=1_000_000)
    return scene.queue().drain
