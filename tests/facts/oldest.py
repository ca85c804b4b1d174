"""The facts of oldest.lua: see `tests.facts.facts`."""

from benchmarks.worst.ready import in_every_place
from benchmarks.worst.scene import LARGE, NAME, Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts

FACTS = Facts(
    "oldest",
    calls=(("right", "specversion", "created"),),
    changes_nothing=True,
    mistakes=r"""
test_oldest.test_of_messages_that_were_moved_aside_the_first_one_of_any_group_counts
  long bodies cost nothing
  - bytes < BODY_BUDGET
  + bytes >= 0
  the time of the message is needed
  - body, listed = first, #first
  + body, listed = first, true or #first
""",
)


@FACTS.worst("1,000,000 in every place")
def oldest_deep(scene: Scene) -> Act:
    in_every_place(scene, scene.many(1_000_000))
    return times(20, scene.queue().oldest_ready)


@FACTS.worst("10,000 lists came back, a body of 0.9 MiB")
def oldest_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), 1)
    scene.client.lpush(NAME, b'{"created": "%s"}' % (b"x" * scene.size(LARGE)))
    return times(5, scene.queue().oldest_ready)
