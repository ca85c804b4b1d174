"""The facts of groups/resume.lua: see `tests.facts.facts`."""

from ackq import Groups
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "groups/resume",
    calls=(("e",),),
    fewest=1,
    refused={"no group": ("",)},
    mistakes=r"""
test_groups_stop.test_a_resumed_group_goes_on_without_its_dead_letters
  it stays stopped
  - redis.call('HDEL', stopped, group) == 1
  + redis.call('HEXISTS', stopped, group) == 1
""",
)


@FACTS.worst("1,000 dead letters of one group")
def resume(scene: Scene) -> Act:
    queue = scene.queue(groups=Groups("of", 1000, on_dead="stop"))
    queue.push_many({"id": n, "of": "a"} for n in range(2000))
    queue.reject(*queue.pop_many(1000))
    queue.pop()
    return lambda: queue.resume_group("a")
