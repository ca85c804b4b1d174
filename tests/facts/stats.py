"""The facts of stats.lua: see `tests.facts.facts`."""

from benchmarks.worst.ready import in_every_place
from benchmarks.worst.scene import Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts

FACTS = Facts(
    "stats",
    calls=(("right",),),
    changes_nothing=True,
    mistakes=r"""
test_stats.test_stats_and_pop_agree_on_what_is_ready
  what ends at this instant is not counted as ready
  - redis.call('ZCOUNT', backup, '-inf', now_text)
  + redis.call('ZCOUNT', backup, '-inf', '(' .. now_text)
""",
)


@FACTS.worst("1,000,000 in every place")
def stats_deep(scene: Scene) -> Act:
    in_every_place(scene, scene.many(1_000_000))
    return times(20, scene.queue().stats)


@FACTS.worst("10,000 lists held")
def stats_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(20, scene.queue().stats)
