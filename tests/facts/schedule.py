"""The facts of schedule.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.space import FUTURE, SECOND

FACTS = Facts(
    "schedule",
    calls=(
        ("delay", SECOND, "new", b"body", "mine", b"body", "", b"body"),
        ("at", FUTURE, "new", b"body"),
    ),
    fewest=4,
    refused={
        "odd": ("delay", 0, "new", b"body", "odd"),
        "1001": ("delay", 0, *("new", b"body") * 1001),
    },
    named_arguments="some",
    mistakes=r"""
test_schedule.test_messages_for_one_time_keep_the_order_of_their_pushes
  a later call begins at the same time
  - behind(delayed, due, due_text)
  + due
test_schedule.test_messages_for_different_past_times_keep_their_times
  any past time is the same
  - head[4] and time_of(head[4]) - time_of(head[2]) < GAP
  + head[2]
""",
)


@FACTS.worst("1,000 x 0.9 MiB")
def schedule_large(scene: Scene) -> Act:
    queue, text = scene.queue(), "x" * scene.size(LARGE)
    return lambda: queue.push_many([{"id": f"m{n}", "p": text} for n in range(1000)], delay=60)


@FACTS.worst("100,000 into 1,000,000 delayed, all ids taken")
def schedule_taken(scene: Scene) -> Act:
    queue, count = scene.queue(), scene.many(100_000)
    scene.delayed(scene.many(1_000_000), score=scene.far)
    return lambda: queue.push_many([{"id": f"m{n:07d}"} for n in range(1, count)], delay=60)


@FACTS.worst("1,000 without ids behind 300,000 of the same time")
def schedule_behind(scene: Scene) -> Act:
    queue, count, at = scene.queue(), scene.many(300_000), scene.far / 1_000_000
    scene.delayed(count, score=scene.far, step=1)
    return lambda: queue.push_many([b"no id"] * 1000, at=at)
