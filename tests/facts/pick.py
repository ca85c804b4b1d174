"""The facts of pick.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import KIB, LARGE, LISTED, MIB, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "pick",
    calls=(
        ("cancel", "ready", 100, 0, "right", "listed"),
        ("cancel", "handoff", 100, 0, "right", "handed"),
        ("run_now", "ready", 100, 0, "right", "listed"),
    ),
    fewest=6,
    refused={
        "no id": ("cancel", "ready", 0, 0, "right"),
        "1,001 ids": ("cancel", "ready", 0, 0, "right", *["id"] * 1001),
    },
    named_arguments="some",
)


@FACTS.worst("1,000 ids among 3,000,000 ready")
def pick_few(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.ready(count)
    return _pick(scene, range(1, count, max(1, count // 1000)))


@FACTS.worst("1,000 of 1,000,000 ready, 50,000 before the end")
def pick_near(scene: Scene) -> Act:
    scene.ready(scene.many(1_000_000))
    first = scene.many(49_000)
    return _pick(scene, range(first, first + 1000))


@FACTS.worst("1,000 in the middle of 1,000,000 ready")
def pick_deep(scene: Scene) -> Act:
    count = scene.many(1_000_000)
    scene.ready(count)
    return _pick(scene, range(count // 2, count // 2 + 1000))


@FACTS.worst("run now: 100 of 100,000 ready, 49,000 before the end")
def pick_front(scene: Scene) -> Act:
    scene.ready(scene.many(100_000))
    queue, first = scene.queue(), scene.many(49_000)
    return lambda: queue.run_now(ids=[f"m{first + n:07d}" for n in range(100)])


@FACTS.worst("1,000 x 0.9 MiB")
def pick_large(scene: Scene) -> Act:
    scene.ready(1000, scene.size(LARGE))
    return _pick(scene, range(1, 1001))


@FACTS.worst("16 x 8 MiB ready, by a stranger")
def pick_strange(scene: Scene) -> Act:
    scene.ready(16, scene.size(8 * MIB))
    return _pick(scene, range(1, 17))


@FACTS.worst("1,000 x 60 KiB of brackets, their id behind")
def pick_brackets(scene: Scene) -> Act:
    line = """local inner = string.rep('[],', 20 * 1000)
      redis.call('LPUSH', KEYS[1], '{"a":[' .. inner .. '0],"id":"' .. id .. '"}')"""
    scene.fill(line, (scene.keys.ready,), 1000, 60 * KIB)
    return _pick(scene, range(1, 1001))


@FACTS.worst("1,000 x 60 KiB of ids")
def pick_ids(scene: Scene) -> Act:
    line = """local inner = string.rep('{"id":"z"},', 5000)
      redis.call('LPUSH', KEYS[1], '{"a":[' .. inner .. '0],"id":"' .. id .. '"}')"""
    scene.fill(line, (scene.keys.ready,), 1000, 60 * KIB)
    return _pick(scene, range(2000, 2100))


@FACTS.worst("1,000 equal ids of 512 bytes")
def pick_equal(scene: Scene) -> Act:
    line = LISTED.replace("body", "'{\"id\":\"' .. string.rep('i', 512) .. '\",\"n\":' .. n .. '}'")
    scene.fill(line, (scene.keys.ready,), 1000)
    queue = scene.queue()
    return lambda: queue.cancel(ids=["i" * 512])


def _pick(scene: Scene, numbers: range) -> Act:
    queue, ids = scene.queue(), [f"m{n:07d}" for n in numbers]
    return lambda: queue.cancel(ids=ids)
