"""The facts of delay/nack.lua: see `tests.facts.facts`."""

from typing import Any

from benchmarks.worst.delay import ERRORS, failed, of, taken
from benchmarks.worst.scene import KIB, LARGE, MIB, Act, Scene
from tests.facts.facts import Facts
from tests.facts.failures import RECEIVES as FAILED_RECEIVES
from tests.facts.failures import with_failures
from tests.facts.refused import bad, cut

GOOD = ("", "nack", 0, "why", 1, 1, 0, 1, "k", "errors", 1, "{}")
FACTS = Facts(
    "delay/nack",
    calls=(GOOD, ("", "reject", *GOOD[2:])),
    fewest=4,
    refused={
        **cut(GOOD, 5, 6, 7, 8, 11),
        **bad(
            GOOD,
            {
                3: ("x" * 1025,),
                4: (2,),
                5: ("nan",),
                6: (-1, "nan", 3153600000000001),
                7: (0, 7),
                9: ("causes",),
                10: (0, 2, "nan"),
                11: ("x" * 8193, "two\nlines"),
            },
        ),
    },
)


@FACTS.worst("1,000 x 0.9 MiB to the dead letters", receives=5, max_receives=5)
@FACTS.worst("1,000 x 0.9 MiB")
def nack_large(scene: Scene, receives: int = 0, **settings: Any) -> Act:
    held, queue = taken(scene, 1000, scene.size(LARGE), receives=receives), of(scene, **settings)
    return lambda: queue.nack(*held)


@FACTS.worst("100,000 of 1,000,000 released")
def release(scene: Scene) -> Act:
    held = taken(scene, scene.many(1_000_000), receives=3)[: scene.many(100_000)]
    queue = of(scene)
    return lambda: queue.release(*held)


@FACTS.worst("1,000 x 100 KiB, with errors of 8 KiB and notes of 40 KiB")
def nack_failed(scene: Scene) -> Act:
    held, queue = taken(scene, 1000, scene.size(100 * KIB), receives=6), of(scene)
    line = """redis.call('HSET', KEYS[1], id, #body .. ':'
      .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
      .. string.rep('\\n1:1:' .. string.rep('x', 8000), 5))"""
    scene.fill(line, (ERRORS,), 1000, scene.size(100 * KIB))
    for each in held:
        each.failure = b"x" * 8000
    return lambda: queue.nack(*held, delay=60)


@with_failures(FACTS, "100 that die")
def nack_dying_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), of(scene, max_receives=FAILED_RECEIVES)
    return lambda: queue.nack(*held)


@with_failures(FACTS, "100 that return")
def nack_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), of(scene)
    return lambda: queue.nack(*held)


@with_failures(FACTS, "100 rejected")
def reject_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), of(scene)
    return lambda: queue.reject(*held)


@FACTS.worst("16 x 32 MiB rejected", count=16, size=32 * MIB)
@FACTS.worst("1,000 x 0.9 MiB rejected", count=1000, size=LARGE)
def reject_large(scene: Scene, count: int, size: int) -> Act:
    held, queue = taken(scene, count, scene.size(size)), of(scene)
    return lambda: queue.reject(*held)
