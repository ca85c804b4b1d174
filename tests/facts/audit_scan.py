"""The facts of audit_scan.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "audit_scan",
    calls=(
        ("backup", 0, 1),
        ("delayed", 0, 1),
        ("context", 0, 1),
        ("receives", 0, 1),
        ("extended", 0, 1),
        ("heldrows", 0, 1),
        ("errors", 0, 1),
    ),
    fewest=2,
    refused={"cursor": ("context", "x", 0), "walk": ("ready", 0, 0)},
    mistakes=r"""
test_audit.test_a_walk_over_the_bodies_reads_few_of_them
  bodies are read by the hundred
  - 'COUNT', 100, 'NOVALUES'), 1
  - elseif walked == 'context' and cursor == '0' and redis.call('HLEN', context) <= WHOLE then
  -   page, stride = {'0', redis.call('HKEYS', context)}, 1
  - else
  -   page, stride = redis.call(walk[1], walk[2], cursor, 'COUNT', walk[3]), 2
  + 'COUNT', 100), 2
  + else
  +   page, stride = redis.call(walk[1], walk[2], cursor, 'COUNT', 100), 2
test_audit.test_a_walk_over_the_bodies_of_a_small_queue_reads_none_of_them
  the bodies of a small queue are read
  - 'COUNT', 100, 'NOVALUES'), 1
  - elseif walked == 'context' and cursor == '0' and redis.call('HLEN', context) <= WHOLE then
  + 'COUNT', 100), 2
  + elseif false then
test_audit.test_a_walk_over_a_large_queue_finds_what_a_small_one_does
  all keys of a large queue are read at once
  - 'COUNT', 100, 'NOVALUES'), 1
  - elseif walked == 'context' and cursor == '0' and redis.call('HLEN', context) <= WHOLE then
  + 'COUNT', 9999, 'NOVALUES'), 1
  + elseif walked == 'context' then
""",
)


@FACTS.worst("64 x 32 MiB, one of them an orphan", count=64, size=32 * MIB)
@FACTS.worst("1,000 x 0.9 MiB, one of them an orphan", count=1000, size=LARGE)
@FACTS.worst("100,000 x 10 KiB, one of them an orphan", count=100_000, size=10_000)
def audit_bodies(scene: Scene, count: int, size: int) -> Act:
    scene.leased(scene.many(count), scene.size(size), scene.far)
    scene.client.zrem(scene.keys.backup, b"m0000001")
    return scene.queue().audit


@FACTS.worst("100,000 to repair in every place")
def audit_broken(scene: Scene) -> Act:
    keys, count = scene.keys, scene.many(100_000)
    line = """for at = 1, 2 do redis.call('ZADD', KEYS[at], score, at .. id) end
      for at = 3, 5 do redis.call('HSET', KEYS[at], at .. id, body) end"""
    broken = (keys.backup, keys.delayed, keys.receives, keys.extended, keys.context)
    scene.fill(line, broken, count, score=scene.far)
    queue = scene.queue()
    return lambda: queue.audit(repair=True)
