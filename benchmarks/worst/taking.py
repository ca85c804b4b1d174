"""The list queue: pop."""

from ackq import Queue
from benchmarks.worst.scene import Act, Scene, times

#: Calls of a case that has endless work.
CALLS = 100


def popping(queue: Queue, calls: int = CALLS) -> Act:
    """Return a function that pops ``calls`` times, a thousand messages each, and acks none."""
    return times(calls, lambda: queue.pop_many(1000))


def hold_lists(scene: Scene, count: int, score: float, rows: int = 1) -> None:
    """Make claims of other groups, of a few messages each."""
    line = f"""local list = '{scene.keys.ready.decode()}CLAIM:other:' .. n
      for _ = 1, {rows} do redis.call('LPUSH', list, body) end
      redis.call('HSET', KEYS[2], list, {rows}) redis.call('ZADD', KEYS[1], score, list)"""
    scene.fill(line, (scene.keys.held, scene.keys.heldrows), count, score=score)
