"""The examples of calls that stand in `tests.facts`."""

from tests import facts
from tests.queue.scripts.busy import Call
from tests.queue.scripts.headers import is_of_the_list_queue

#: The calls of every product.
ALL = tuple(
    Call(each.script, args, each.more_keys) for each in facts.every() for args in each.calls
)
#: The calls of the list queue.
CALLS = tuple(call for call in ALL if is_of_the_list_queue(call.script))
#: What changes nothing in a queue that `fill` has filled.
READERS = {each.script for each in facts.every() if each.changes_nothing}
