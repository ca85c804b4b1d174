"""The facts of what reads several queues together: see `tests.facts.facts`."""

from ackq.ops.overview import Overview
from benchmarks.worst.scene import KIB, LARGE, NAME, Act, Scene
from tests.facts.facts import Facts

#: Makes a queue with a message in every place, all counts, and held lists.
QUEUE = """
local name, held, body, far = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]
redis.call('LPUSH', name, body)
redis.call('ZADD', name .. 'BACKUP', 1, 'a', far, 'b')
redis.call('ZADD', name .. 'DELAYED', 1, 'c', far, 'd')
redis.call('XADD', name .. 'DEAD', '*', 'key', 'e')
for n = 1, held do
  redis.call('ZADD', name .. 'HELD', far, name .. 'CLAIM:g:' .. n)
  redis.call('HSET', name .. 'HELDROWS', name .. 'CLAIM:g:' .. n, 1)
end
redis.call('HSET', name .. 'COUNTERS', 'since', 1, 'live', 5, 'held', 2, 'acked', 1)
for n = 1, 96 do
  redis.call('HSET', name .. 'COUNTERS', 'lease:' .. n, 1)
end
"""

LISTS = Facts(
    "overview/lists",
    calls=((0, "specversion", "made"),),
    fewest=3,
)


@LISTS.worst("10,000 queues, 20 held lists each, bodies of 5 KiB")
def figures(scene: Scene) -> Act:
    return _figures(scene, 20, 5 * KIB)


@LISTS.worst("10,000 queues, bodies of 64 KiB")
def figures_large(scene: Scene) -> Act:
    return _figures(scene, 0, 60 * KIB)


@LISTS.worst("1,000 queues, 1,000 held lists each, bodies of 0.9 MiB")
def figures_held(scene: Scene) -> Act:
    return _figures(scene, 1000, LARGE, 1000)


def _figures(scene: Scene, held: int, size: int, count: int = 10_000) -> Act:
    names = [f"{NAME}-{number}" for number in range(scene.many(count))]
    text = '{"id":"a","specversion":"1.0","x":"%s"}' % ('"' * scene.size(size))
    for name in names:
        scene.client.eval(QUEUE, 1, name, held, text, scene.far)
    overview = Overview(scene.client, names, window=900)
    scene.own(overview)
    overview.read()
    return overview.read
