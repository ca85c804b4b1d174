"""The facts of peek.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, MIB, Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts

FACTS = Facts(
    "peek",
    calls=(
        ("ready", 0, 100, 1),
        ("in_flight", 0, 100, 1),
        ("delayed", 0, 100, 0),
    ),
    changes_nothing=True,
    fewest=4,
    mistakes=r"""
test_peek.test_a_list_is_read_one_two_four_at_a_time
  sixteen of a list are read at once
  - local slice, largest = 1, 1
  + local slice, largest = SLICE, 1
test_peek.test_a_list_that_is_not_held_or_is_none_is_not_shown
  shows what is not held
  - local score = i > 7 and redis.call('ZSCORE', held, list)
  + local score = i > 7 and (redis.call('ZSCORE', held, list) or '0')
""",
)


@FACTS.worst("1,000 x 0.9 MiB in flight")
def peek_large(scene: Scene) -> Act:
    scene.held(1000, scene.size(LARGE))
    queue = scene.queue()
    return lambda: queue.peek(1000, "in_flight")


@FACTS.worst("16 x 64 MiB ready, by a stranger", size=64 * MIB)
@FACTS.worst("16 x 8 MiB ready, by a stranger", size=8 * MIB)
def peek_ready(scene: Scene, size: int) -> Act:
    scene.ready(16, scene.size(size))
    queue = scene.queue()
    return lambda: queue.peek(16)


@FACTS.worst("the middle of 3,000,000 ready")
def peek_middle(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.ready(count)
    queue = scene.queue()
    return times(20, lambda: queue.peek(1000, skip=count // 2))


@FACTS.worst("the middle of 3,000,000 in flight")
def peek_middle_in_flight(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.leased(count, score=scene.far, step=1)
    queue = scene.queue()
    return times(20, lambda: queue.peek(1000, "in_flight", skip=count // 2))


@FACTS.worst("1,000 claims")
def peek_claims(scene: Scene) -> Act:
    hold_lists(scene, 1000, scene.far)
    queue = scene.queue()
    return lambda: queue.peek(1000, "in_flight")
