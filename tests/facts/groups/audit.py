"""The facts of groups/audit.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import group_audit
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.example import GROUPED
from tests.facts.facts import Facts
from tests.facts.groups.list import FILLED, PARKED

FACTS = Facts(
    "groups/audit",
    calls=(("slots", "", 0), ("turns", "", 1)),
    operation=lambda: group_audit.audit(GROUPED, False),
    replies=[[b""], [b""]],
    passes={"walk": ["slots"], "after": [b""], "repair": [0]},
    refused={
        "no such walk": ("all", "", 0),
        "repair is no flag": ("slots", "", 2),
    },
    mistakes=r"""
test_groups.test_an_audit_finds_and_mends_what_is_wrong_with_groups
  given: in_flight=1
  the last place counts as a group
  - if tag ~= '' and (tonumber(known
  + if (tonumber(known
  groups without messages in flight keep their slots
  - if not numbers[found[2][i]] then
  + if false then
  a group without slots is right
  - ~= number
  -     and report
  + < 0
  +     and report
  keeps what is not in flight
  - redis.call('ZREM', runs, member)
  + redis.call('ZCARD', runs)
  single messages are runs
  - numbers[tag] > 1
  + numbers[tag] > 0
  a busy group gets a turn
  - redis.call('HGET', busy, tag) or nil) or 0) < limit
  + redis.call('HGET', busy, tag) or nil) or 0) < limit + 9
  the group of the message that woke a consumer gets a turn
  - and tag ~= woken_tag and
  + and
  mends what it only reports
  - return repair == '1'
  + return true
  given: in_flight=3
  every group may have runs
  - limit == 1 and numbers[tag] > 1
  + numbers[tag] > 1
test_groups.test_an_audit_reports_members_that_no_script_wrote
  an empty member ends the walk
  - member == '' and '\0' or member
  + member
  a beginning alone is a message
  - start and string.find(member, '^' .. string.rep('%d', PLACE), #start + 1) and start
  + start
test_groups.test_an_audit_of_many_groups_takes_several_calls
  looks at all groups at once
  - or looked == LOOKED_AT or
  + or
  bodies cost nothing
  - bytes + #(member or '')
  + bytes + 0 * #(member or '')
  the next group is missed
  - start and start .. ':' or
  + start and string.sub(start, 1, -2) .. ':' or
  slots of many messages are compared
  - redis.call('HLEN', flight) <= MOST
  + redis.call('HLEN', flight) <= 9 * MOST
""",
)

IN_FLIGHT = "redis.call('HSET', KEYS[1], id, '=' .. string.rep('0', 16) .. 'a')"


@FACTS.worst("1,000,000 groups, 1,000 messages in flight")
def audit_groups(scene: Scene) -> Act:
    scene.fill(FILLED, scene.of_groups("BUSY", "TURNS"), scene.many(1_000_000))
    scene.fill(IN_FLIGHT, scene.of_groups("FLIGHT"), 1000)
    scene.fill(PARKED, scene.of_groups("PARKED"), scene.many(10_000))
    queue = scene.queue(groups=Groups("customer"))
    return times(1, lambda: queue.audit(repair=True))
