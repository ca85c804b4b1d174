"""The facts of extend.lua: see `tests.facts.facts`."""

from ackq.queue import settle
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.example import SPEC, leased
from tests.facts.facts import Facts
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "extend",
    calls=((30 * SECOND, 0, *MINE),),
    operation=lambda: settle.extend(SPEC, leased(), 4.0),
    replies=[[1, 1]],
    passes={"timeout": [4_000_000], "extended": [99, 1, b"k"]},
    fewest=2,
    refused=bad_groups((1, 0)),
    mistakes=r"""
test_extend.test_a_stale_receipt_cannot_extend_a_message_that_another_consumer_holds
  no fence
test_extend.test_a_lease_can_be_extended_again_and_again_with_its_first_receipt
  the old receipt of an extended lease is refused
test_extend.test_a_settled_message_is_gone_and_not_revived
  what is gone is not reported
test_extend.test_an_extension_with_a_lost_reply_keeps_the_old_receipt_valid
  the receipt is not noted
  - redis.call('HSET', extended, entry[1], entry[2] .. ':' .. deadline_text)
  the new deadline is the new receipt
  - entry[2] .. ':' .. deadline_text)
  + deadline_text .. ':' .. deadline_text)
test_extend.test_an_extension_moves_the_deadline_and_notes_the_receipt
  a deadline without jitter
  - + timeout + jitter
  + + timeout
test_cancel.test_the_next_extend_reports_that_its_delivery_was_canceled
  names the wrong key
  - canceled[#canceled + 1] = position
  + canceled[1] = 1
test_cancel.test_a_note_of_a_canceled_delivery_applies_to_no_other_delivery
  a note applies to any delivery of the key
  - string.find(note, receipt .. ':canceled:', 1, true) == 1
  + string.find(note, ':canceled:', 1, true)
test_own_servers.test_a_lease_can_be_extended_on_a_full_server
  the first write may allocate
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
