"""The facts of find.lua: see `tests.facts.facts`."""

from ackq.queue import places
from benchmarks.worst.scene import LARGE, Act, Scene, times
from tests.facts.example import SPEC
from tests.facts.facts import Facts

FACTS = Facts(
    "find",
    calls=((1, "later", "later", "mine"), (0, "due", "expired")),
    changes_nothing=True,
    operation=lambda: places.find(SPEC, "a-1", None),
    replies=[[b"5", 1, 2, b"a-1", b"backup", b"4", 0, 0, b'{"id":"a-1"}']],
    passes={"texts": [0], "more": [b"a-1", b"\0a-1"]},
    fewest=2,
    refused={
        "a text too long": (1, "x" * 4097, "key"),
        "an empty text": (1, "", "key"),
        "no key": (1, "text"),
        "1,001 keys": (0, *["key"] * 1001),
    },
    named_arguments="some",
    mistakes=r"""
test_find.test_it_tells_what_is_leased_expired_delayed_and_due
  a delayed message has one delivery too many
  - delayed, 0)
  + delayed, 1)
  counts leases as expired that are not
  - redis.call('ZCOUNT', backup, '-inf', now)
  + redis.call('ZCARD', backup)
  sees no delayed message
  - if not look_up(
  + if look_up(
test_find.test_a_body_that_lacks_a_text_is_left_out
  returns every body
  - if not string.find(head, wanted[i], 1, true) then
  + if false then
  misses an escaped letter
  - #body > SEARCHED or string.find(head, '\\u', 1, true) ~= nil
  + #body > SEARCHED
test_find.test_the_end_of_a_very_long_body_may_contain_a_text
  does not look at the end
  - return #body > SEARCHED or
  + return
test_find.test_one_call_looks_up_a_mebibyte
  any number of bytes in one call
  - if bytes >= BODY_BUDGET then
  + if false then
""",
)


@FACTS.worst("1,000 x 0.9 MiB in flight")
def find_large(scene: Scene) -> Act:
    scene.leased(1000, scene.size(LARGE), scene.far)
    queue = scene.queue()
    return lambda: queue.search({"customer": 1}, within=1000)


@FACTS.worst("one of 3,000,000 in flight")
def find_leased(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.leased(count, score=scene.far, step=1)
    queue = scene.queue()
    return times(20, lambda: queue.find(f"m{count // 2:07d}"))
