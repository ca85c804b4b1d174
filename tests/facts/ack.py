"""The facts of ack.lua: see `tests.facts.facts`."""

from ackq.queue import settle
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.example import SPEC, leased
from tests.facts.facts import Facts
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE

FACTS = Facts(
    "ack",
    calls=(MINE,),
    operation=lambda: settle.ack(SPEC, leased()),
    replies=[[1]],
    passes={"settled": [99, 1, b"k"]},
    refused=bad_groups(()),
    mistakes=r"""
test_ack.test_an_ack_touches_no_other_message_of_its_batch
  given: named=("a", "b", "gone")
  as many keys as the batch had are taken for the batch
  given: named=("a", "b")
  a part of a batch is taken for the batch
test_ack.test_a_stale_receipt_cannot_ack_a_message_that_another_consumer_holds
  no fence
test_ack.test_the_old_receipt_acks_an_extended_lease
  the old receipt of an extended lease is refused
test_ack.test_a_note_of_extension_does_not_outlive_its_score
  an extension is believed whatever the deadline
  - and redis.call('HGET', extended, key) == receipt .. ':' .. string.format('%.0f', score))
  + and string.match(redis.call('HGET', extended, key) or '', '^%d+') == receipt)
test_ack.test_an_ack_deletes_every_record_of_the_message
  the body stays
  - redis.call('HDEL', context, unpack(done))
  the count stays
  - redis.call('HDEL', receives, unpack(done))
test_ack.test_an_ack_of_a_delayed_message_is_refused
  a message that waits is taken for settled
  - local waits = score or (has_delayed and redis.call('ZSCORE', delayed, key))
  + local waits = score
test_ack.test_a_resent_ack_finds_the_message_gone_and_nobody_elses
  what is gone is said to be another's
  - waits and position or -position
  + position
  what is gone is not reported
  - refused[#refused + 1] = waits and position or -position
  + refused[#refused + 1] = waits and position or nil
test_held.test_nothing_is_counted_while_no_one_watches
  counts while nobody watches
  - local watched = sides > 0 and redis.call('HEXISTS', counters, 'since') == 1
  + local watched = true
test_errors_kept.test_a_note_goes_with_its_message
  given: settle="ack"
  the note stays
  - redis.call('HDEL', errors, unpack(done))
test_counts.test_a_take_and_an_ack
  given: wanted=1
  counts what was acked before
  - 'acked', acked)
  + 'acked', acked + 1)
""",
)


@FACTS.worst("16 x 64 MiB", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
def ack_large(scene: Scene, count: int, size: int) -> Act:
    held, queue = scene.held(count, scene.size(size)), scene.queue()
    return lambda: queue.ack(*held)


@FACTS.worst("100,000 extended, with counts")
def ack_extended(scene: Scene) -> Act:
    count = scene.many(100_000)
    held, queue = scene.held(count), scene.queue()
    scene.counted(count, 3)
    queue.extend(*held, timeout=3600)
    return lambda: queue.ack(*held)


@FACTS.worst("100,000 of 3,000,000 in flight, one score for all")
def ack_deep(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(3_000_000))[: scene.many(100_000)], scene.queue()
    return lambda: queue.ack(*held)
