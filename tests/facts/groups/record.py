"""The facts of groups/record.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import group_record
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts
from tests.queue.scripts.grouped import RECORD

FACTS = Facts(
    "groups/record",
    calls=((RECORD,),),
    changes_nothing=True,
    fewest=1,
    refused={
        "no record": ("left",),
        "none in flight": (RECORD.replace(":1:", ":0:"),),
        "of an older release": ("groups:1:customer",),
    },
    mistakes=r"""
test_groups_pop.test_groups_are_recorded_unless_others_hold_messages
  an ended lease holds up
  - redis.call('ZCOUNT', backup, now, '+inf')
  + redis.call('ZCARD', backup)
  replaces a record
  -   return redis.call('GET', record)
  -
  +   redis.call('SET', record, wanted)
  +   return wanted
  +
""",
)


@FACTS.worst("1,000,000 leases that ended")
def record_groups(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000), score=1, step=1)
    queue = scene.queue(groups=Groups("customer"))
    return times(
        100, lambda: queue.execute(lambda spec: group_record.record(spec.keys, spec.config))
    )
