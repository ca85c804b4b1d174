"""The list queue: the operations of producers and operators."""

from benchmarks.worst.scene import Scene


def in_every_place(scene: Scene, count: int) -> None:
    scene.ready(count)
    scene.leased(count // 2, score=1, step=1)
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    scene.fill(line, (scene.keys.delayed, scene.keys.context), count // 2, first=count)
    scene.counted(count // 2, 2)
    scene.dead(count)
