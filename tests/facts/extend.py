"""The facts of extend.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "extend",
    calls=((30 * SECOND, 0, *MINE),),
    fewest=2,
    named_arguments="some",
    refused=bad_groups((1, 0)),
    mistakes=r"""
test_extend.test_an_extension_with_a_lost_reply_keeps_the_old_receipt_valid
  the new deadline is the new receipt
  - each.receipt .. ':' .. deadline_text)
  + deadline_text .. ':' .. deadline_text)
test_cancel.test_the_next_extend_reports_that_its_delivery_was_canceled
  names the wrong key
  - canceled[#canceled + 1] = each.position
  + canceled[1] = 1
test_cancel.test_a_note_of_a_canceled_delivery_applies_to_no_other_delivery
  a note applies to any delivery of the key
  - string.find(note, receipt .. ':canceled:', 1, true) == 1
  + string.find(note, ':canceled:', 1, true)
""",
)


@FACTS.worst("100,000 of 3,000,000 in flight, one score for all")
def extend_deep(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(3_000_000))[: scene.many(100_000)], scene.queue()
    return lambda: queue.extend(*held, timeout=3600)


@FACTS.worst("1,000 x 0.9 MiB")
def extend_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.extend(*held, timeout=3600)
