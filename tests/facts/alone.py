"""The facts of alone.lua: see `tests.facts.facts`."""

from ackq.queue import settle
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.space import FUTURE

FACTS = Facts(
    "alone",
    calls=((FUTURE, "mine", 2, 1, b"{}"),),
    fewest=5,
    refused={
        "long": (FUTURE, "mine", 2, 1, b"x" * 8193),
        "two lines": (FUTURE, "mine", 2, 1, b"{}\n"),
    },
    mistakes=r"""
test_alone.test_a_call_that_is_sent_again_changes_nothing
  its own note counts as that of the delivery before
  - failures_of(note, body, count)
  + failures_of(note, body, count + 1)
""",
)


@FACTS.worst("0.9 MiB, as many in flight")
def alone_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    error = OSError("x")
    return lambda: queue.execute(settle.run_alone, held[0], 2, 1, error)
