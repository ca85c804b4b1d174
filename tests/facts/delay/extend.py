"""The facts of delay/extend.lua: see `tests.facts.facts`."""

from __future__ import annotations

from benchmarks.worst.delay import of, taken
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/extend",
)


@FACTS.worst("100,000 of 1,000,000, one time for all")
def extend(scene: Scene) -> Act:
    held, queue = taken(scene, scene.many(1_000_000))[: scene.many(100_000)], of(scene)
    return lambda: queue.extend(*held, timeout=3600)
