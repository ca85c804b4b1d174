"""The facts of cancel.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad_pairs
from tests.queue.scripts.space import FUTURE

FACTS = Facts(
    "cancel",
    calls=((0, "", "due", FUTURE, "later"), (1, "", "mine", "", "dying")),
    fewest=3,
    refused={name: (0, *args) for name, args in bad_pairs(1000).items()},
    named_arguments="some",
    mistakes=r"""
test_errors_kept.test_one_call_reads_a_quarter_of_a_mebibyte_of_notes
  given: way="cancel"
  a note of another message costs nothing
""",
)


@FACTS.worst("100,000 of 1,000,000, with notes of failures")
def cancel_deep(scene: Scene) -> Act:
    scene.delayed(scene.many(1_000_000), score=scene.far)
    count = scene.many(100_000)
    line = """local lines = string.rep('\\n1:7:{"text":"' .. string.rep('x', 8000) .. '"}', 5)
      local ends = redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
      redis.call('HSET', KEYS[1], id, #body .. ':' .. ends .. lines)
      redis.call('HSET', KEYS[2], id, 3)"""
    scene.fill(line, (scene.keys.errors, scene.keys.receives), min(count, 1000))
    return _cancel(scene, count)


@FACTS.worst("16 x 64 MiB", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
def cancel_large(scene: Scene, count: int, size: int) -> Act:
    scene.delayed(count, scene.size(size), scene.far)
    return _cancel(scene, count)


@FACTS.worst("100,000 of 3,000,000 that run, 1,000,000 extended")
def cancel_running(scene: Scene) -> Act:
    scene.leased(scene.many(3_000_000), score=scene.far, step=1)
    line = "redis.call('HSET', KEYS[1], id, '7:8')"
    scene.fill(line, (scene.keys.extended,), scene.many(1_000_000))
    return _cancel(scene, scene.many(100_000), running=True)


def _cancel(scene: Scene, count: int, running: bool = False) -> Act:
    queue, ids = scene.queue(), [f"m{n:07d}" for n in range(1, count + 1)]
    return lambda: queue.cancel(ids=ids, running=running)
