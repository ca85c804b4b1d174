"""The facts of delay/reject.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import failed, of, taken
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.facts import Facts
from tests.facts.failures import with_failures
from tests.facts.refused import bad, cut

GOOD = ("", "why", 1, 1, 1, "k", "errors", 1, "{}")
FACTS = Facts(
    "delay/reject",
    calls=(GOOD,),
    fewest=2,
    refused={
        **cut(GOOD, 3, 4, 5, 8),
        **bad(
            GOOD,
            {
                1: ("x" * 1025,),
                2: (2,),
                3: ("nan",),
                4: (7,),
                6: ("causes",),
                7: (0, 2),
                8: ("x" * 8193, "two\nlines"),
            },
        ),
    },
    mistakes=r"""
test_budgets.test_a_reject_of_a_delay_queue_moves_a_mebibyte
  bodies cost nothing
  messages left for the next call are reported as refused
  - while #reply > 1 and math.abs(reply[#reply]) >= each[3] do
  + while false do
test_budgets.test_one_call_rejects_a_hundred_of_a_delay_queue
  any number of messages in one call
test_budgets.test_a_delay_queue_settles_the_messages_of_a_quarter_of_a_mebibyte_of_notes
  notes cost nothing
  - #body + 4 * #note
  + #body
delay.test_counts.test_a_nack_that_kills_and_a_reject
  does not count
  - count_up(first, 'dead:rejected', number)
delay.test_counts.test_counts_of_another_type_stop_no_script_half_way
  counts of another type stop it half way (error)
  - number > 0 and redis.pcall('HEXISTS'
  + number > 0 and redis.call('HEXISTS'
delay.test_failure_notes.test_a_dead_letter_gets_the_errors_of_its_message
  given: end="reject", noted=b"other"
  a note of another body is kept
""",
)


@with_failures(FACTS, "100")
def reject_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), of(scene)
    return lambda: queue.reject(*held)


@FACTS.worst("16 x 32 MiB", count=16, size=32 * MIB)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
def reject_large(scene: Scene, count: int, size: int) -> Act:
    held, queue = taken(scene, count, scene.size(size)), of(scene)
    return lambda: queue.reject(*held)
