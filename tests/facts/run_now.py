"""The facts of run_now.lua: see `tests.facts.facts`."""

from ackq.queue import chosen_messages
from benchmarks.worst.scene import Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts
from tests.facts.refused import bad_pairs
from tests.queue.scripts.space import FUTURE

FACTS = Facts(
    "run_now",
    calls=((FUTURE, "later"),),
    operation=lambda: chosen_messages.run_now(SPEC, ["99-k"], ["m"]),
    replies=[1],
    passes={"chosen": ["99", b"k", "", "m"]},
    refused=bad_pairs(500),
    named_arguments="none",
    mistakes=r"""
test_delayed.test_messages_run_now_in_the_given_order_with_what_is_known_of_them
  all at one time, so in the order of their keys
  -  + (at + 1) / 2)
  + )
  later than the present
  - now - 500 +
  + now +
test_delayed.test_what_is_due_or_leased_or_delayed_anew_does_not_run_now
  what is due goes behind the others
  - score and score > now and
  + score and
  a later message with the same id runs
  -  and (due == '' or score == tonumber(due))
  delays what is leased
  - if score and score > now and (due
  + if not score or score > now and (due
""",
)


@FACTS.worst("100,000 of 1,000,000, one due time for all")
def run_now(scene: Scene) -> Act:
    scene.delayed(scene.many(1_000_000), score=scene.far)
    queue, ids = scene.queue(), [f"m{n:07d}" for n in range(1, scene.many(100_000) + 1)]
    return lambda: queue.run_now(ids=ids)
