"""The examples of calls that stand in `tests.facts`."""

from __future__ import annotations

from tests import facts
from tests.queue.scripts.busy import Call

CALLS = tuple(Call(each.script, args) for each in facts.every() for args in each.calls)
#: What changes nothing in a queue that `fill` has filled.
READERS = {each.script for each in facts.every() if each.changes_nothing}
