"""The facts of nack.lua: see `tests.facts.facts`."""

from typing import Any

from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from benchmarks.worst.settling import failed
from tests.facts.facts import Facts
from tests.facts.failures import RECEIVES, with_failures
from tests.facts.groups.pop import held_of_groups
from tests.facts.refused import bad_groups
from tests.queue.scripts.space import FUTURE, SECOND

FACTS = Facts(
    "nack",
    calls=(
        ("nack", 3, "", FUTURE, SECOND, 1, "mine", FUTURE, -1, 1, "mine_too", 7, 0, 1, "dying"),
        ("release", 3, "", FUTURE, SECOND, 1, "mine", FUTURE, -1, 1, "mine_too"),
        ("nack", 3, "", FUTURE, SECOND, 1, "mine", 7, 0, 1, "dying", "errors", 2, b"{}"),
        ("reject", 0, "bad", FUTURE, 0, 1, "mine", "errors", 1, b"{}"),
    ),
    fewest=3,
    named_arguments="some",
    refused=bad_groups(("nack", 0, ""), delay=0),
    mistakes=r"""
test_nack.test_what_was_given_back_together_is_ready_at_once_and_in_the_order_given
  what is given back together is sorted by its keys
  - now - most + i
  + now - most + 1
test_own_servers.test_work_can_be_given_back_to_a_full_server
  given: delay=1000000, max_receives=0
  the first write may allocate (error)
  -   local key, delay, failure =
  +   redis.call('HINCRBY', receives, each.key, 0)
  +   local key, delay, failure =
test_groups_pop.test_a_nack_that_returns_a_message_frees_nothing
  frees the group of a message that comes back
  -     reply[1] = reply[1] + 1
  +     reply[1], freed[1] = reply[1] + 1, key
""",
)


@FACTS.worst("16 x 64 MiB to the dead letters", count=16, size=64 * MIB, max_receives=1)
@FACTS.worst("1,000 x 0.9 MiB to the dead letters", count=1000, size=LARGE, max_receives=1)
@FACTS.worst("1,000 x 0.9 MiB, requeue=back", count=1000, size=LARGE, delay=0, requeue="back")
@FACTS.worst("1,000 x 0.9 MiB, delay=0", count=1000, size=LARGE, delay=0)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
def nack_large(
    scene: Scene, count: int, size: int, delay: float | None = None, **settings: Any
) -> Act:
    held, queue = scene.held(count, scene.size(size)), scene.queue(**settings)
    return lambda: queue.nack(*held, delay=delay)


@FACTS.worst("1,000 of as many groups, while a consumer waits")
def nack_groups(scene: Scene) -> Act:
    queue, held = held_of_groups(scene, 504)
    queue.pop(timeout=0.01)
    return lambda: queue.nack(*held, delay=0)


@FACTS.worst("100,000 of 3,000,000 in flight")
def nack_deep(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(3_000_000))[: scene.many(100_000)], scene.queue()
    return lambda: queue.nack(*held)


@with_failures(FACTS, "100 that die")
def nack_dying_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), scene.queue(max_receives=RECEIVES)
    return lambda: queue.nack(*held)


@with_failures(FACTS, "100 that return")
def nack_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), scene.queue()
    return lambda: queue.nack(*held)


@FACTS.worst("1,000 x 0.9 MiB released")
def release_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.release(*held)


@with_failures(FACTS, "100 rejected")
def reject_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), scene.queue()
    return lambda: queue.reject(*held)


@FACTS.worst("16 x 64 MiB rejected", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB rejected", count=1000, size=LARGE)
def reject_large(scene: Scene, count: int, size: int) -> Act:
    held, queue = scene.held(count, scene.size(size)), scene.queue()
    return lambda: queue.reject(*held, reason="no use")


@FACTS.worst("100,000 with counts rejected")
def reject_many(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(100_000)), scene.queue()
    scene.counted(len(held), 3)
    return lambda: queue.reject(*held, reason="no use")
