"""The facts of sharded queues: see `tests.facts.facts`."""

from ackq import Groups, Queue
from ackq.membership.shards import read
from ackq.queue.keys import QueueKeys
from ackq.sharded import operations, resize
from benchmarks.worst.scene import Act, Scene
from tests.facts.example import GROUPED, SPEC
from tests.facts.facts import Facts
from tests.facts.groups.list import FILLED
from tests.facts.groups.pop import OF_ITS_OWN
from tests.facts.refused import bad
from tests.queue.scripts.grouped import RECORD

NAME = "ackq-benchmark:sharded"

CHANGE_CALL = (1, 3, "")
CHANGE = Facts(
    "sharded/change",
    calls=(CHANGE_CALL,),
    fewest=3,
    refused=bad(CHANGE_CALL, {2: ("x", "1" * 8193)}),
    mistakes=r"""
sharded.test_resize.test_a_change_needs_the_version_that_it_is_based_on
  overwrites what others changed
  - tonumber(redis.call('HGET', record, 'version')) ~= version
  + false
  keeps the version
  - 'HINCRBY', record, 'version', 1
  + 'HINCRBY', record, 'version', 0
  keeps the former numbers
  - , 'draining', draining)
  + )
  any number
  - outside(shards, 1, 1024)
  + false
  any text
  - string.find(draining, '[^%d ]')
  + false
  text of any length
  - #draining > 8192
  + false
""",
)
SHARD_COUNTS = Facts(
    "sharded/look",
    calls=((),),
    operation=lambda: operations.shard_counts(SPEC),
    replies=[[1, 0, -1]],
    mistakes=r"""
sharded.test_choice.test_a_look_counts_what_a_pop_would_take
  forgets what was handed over
  - + redis.call('LLEN', handoff)
  ended leases do not count
  - {backup, delayed, held, turns}
  + {delayed, held, turns}
  due messages do not count
  - {backup, delayed, held, turns}
  + {backup, held, turns}
  held lists do not count
  - {backup, delayed, held, turns}
  + {backup, delayed, turns}
  waits for the last event
  - tonumber(first) - now < wait
  + tonumber(first) - now > wait
  does not see that it is paused
  - redis.call('EXISTS', paused)
  + 0
sharded.test_choice.test_a_look_counts_the_groups_whose_turn_it_is
  turns do not count
  - held, turns}
  + held}
  nobody is known to wait
  - redis.pcall('SET', looks, string.format('%.0f:1.000', now), 'PX', LOOKS_KEPT)
  +
  notes a consumer that finds messages
  - count == 0 and looks
  + looks
""",
)
OPEN = Facts(
    "sharded/open",
    calls=((2,),),
    fewest=1,
    mistakes=r"""
sharded.test_record.test_open_creates_once_and_reads
  overwrites the record
  - redis.call('EXISTS', record) == 0
  + true
  creates a record without a number
  - shards == 0
  + false
sharded.test_record.test_open_leaves_a_queue_of_the_first_format_as_it_is
  takes a queue of the first format for a new one
  - if common then
  + if false then
sharded.test_record.test_open_refuses_a_number_out_of_range
  any number
  - outside(shards, 0, 1024)
  + shards == nil
sharded.test_record.test_open_records_the_groups_of_a_new_queue
  any record
  - or string.find(groups, 'groups:', 1, true) ~= 1)
  + )
  groups of any length
  - #groups > 300
  + false
  old clients take part
  - groups and '3' or '2'
  + '2'
  forgets the groups
  - redis.call('HSET', record, 'groups', groups)
  + redis.call('HLEN', record)
""",
)
RETIRE = Facts(
    "sharded/retire",
    calls=((5,),),
    fewest=1,
    operation=lambda: resize.retire(SPEC, 5),
    replies=[1],
    passes={"version": [5]},
    mistakes=r"""
sharded.test_resize.test_a_shard_is_retired_only_if_it_has_nothing
  closes a shard that has something
  -       return 0
  -     end
  +     end
  takes dead letters for an empty stream
  - redis.call('XLEN', dead) == 0
  + true
  an empty stream keeps it open
  - and not empty and
  + and
  does not close it for later messages
  - redis.call('MSET', ready, text, context, text)
  + redis.call('SET', ready, text)
  an older version replaces a newer one
  - if since < version then
  + if true then
  keeps an older version
  - if since < version then
  + if since == 0 then
  any version
  - outside(version, 1,
  + outside(version, 0,
  overwrites the string of another program
  - redis.call('GET', ready))
  + redis.call('GET', ready)) or 0
""",
)
REVIVE = Facts(
    "sharded/revive",
    calls=((5, RECORD),),
    fewest=1,
    operation=lambda: resize.revive(SPEC, 5),
    replies=[1],
    passes={"version": [5]},
    mistakes=r"""
sharded.test_resize.test_a_shard_is_revived_by_a_later_version_only
  opens what was closed at the same version
  - >= version then
  + > version then
  deletes messages (error)
  - redis.call('TYPE', ready).ok ~= 'string'
  + redis.call('TYPE', ready).ok == 'none'
  leaves it closed for later messages
  - redis.call('DEL', ready, context)
  + redis.call('DEL', ready)
  any version
  - if outside(version, 1, 9007199254740991) then
  + if not version then version = 0 elseif false then
""",
)


CLOSE = Facts(
    "sharded/close",
    calls=((5,),),
    fewest=1,
    operation=lambda: resize.close(GROUPED, 5),
    replies=[1],
    passes={"version": [5]},
    mistakes=r"""
sharded.test_group_resize.test_a_shard_is_closed_with_its_messages
  leaves the messages (error)
  - if redis.call('LLEN', ready) > 0 and
  + if redis.call('LLEN', ready) < 0 and
  closes what a later version opened
  - if tonumber(redis.call('GET', since) or '0') >= version then
  + if false then
  replaces messages
  - redis.call('RENAMENX', ready, closed) == 0
  + redis.call('RENAME', ready, closed) == 0
  takes any string for a closed shard
  -   if not tonumber(state) then
  -     return 0
  +   if not tonumber(state) then
  +     return 1
  any version
  - outside(version, 1,
  + outside(version, 0,
sharded.test_group_resize.test_a_shard_that_was_retired_too_early_stays_retired_when_it_is_closed
  it can be opened again
  - if tonumber(state) < version then
  + if false then
  an older version replaces a newer one
  - if tonumber(state) < version then
  + if true then
  it stores messages for later
  - redis.call('MSET', ready, text, context, text)
  + redis.call('MSET', ready, text)
""",
)
SEAL = Facts(
    "sharded/seal",
    calls=((),),
    fewest=0,
    operation=lambda: resize.seal(GROUPED),
    replies=[1],
    mistakes=r"""
sharded.test_group_resize.test_a_closed_shard_is_sealed_only_if_it_has_nothing_to_deliver
  forgets messages in flight
  - redis.call('EXISTS', backup, context,
  + redis.call('EXISTS', context,
  forgets bodies
  - redis.call('EXISTS', backup, context,
  + redis.call('EXISTS', backup,
  forgets what was handed over
  - context, handoff,
  + context,
  forgets delayed messages
  - handoff, delayed, paused,
  + handoff, paused,
  seals a paused shard
  - delayed, paused, parked,
  + delayed, parked,
  forgets parked messages
  - paused, parked, closed,
  + paused, closed,
  forgets its list
  - parked, closed, stopped)
  + parked, stopped)
  forgets stopped groups
  - closed, stopped)
  + closed)
  seals a shard in use (error)
  - redis.call('TYPE', ready).ok ~= 'string'
  + false
  takes dead letters for none
  - redis.call('XLEN', dead) > 0
  + false
  stores messages for later
  - redis.call('MSET', ready, version, context, version)
  + redis.call('MSET', ready, version)
  leaves the record
  - redis.call('UNLINK', unpack(KEYS, 9, 10))
  +
  leaves the slots
  - redis.call('UNLINK', unpack(KEYS, 12))
  +
  leaves the counts
  - redis.call('UNLINK', unpack(KEYS, 5, 6))
  +
""",
)
RELEASE = Facts(
    "sharded/release",
    calls=((5,),),
    fewest=1,
    operation=lambda: resize.release(GROUPED, 5),
    replies=[1],
    passes={"version": [5]},
    mistakes=r"""
sharded.test_group_resize.test_a_new_shard_is_held_from_its_opening_to_its_release
  releases for any version
  - if tonumber(opened_by) ~= version then
  + if not groups then
  any version
  - if outside(version, 1, 9007199254740991) then
  + if not version then
""",
)


@OPEN.worst("1,024 shards")
def opened(scene: Scene) -> Act:
    home = scene.own(Queue(scene.client, f"{{{NAME}}}"))
    return lambda: home.execute(lambda spec: read(NAME, 1024))


@CHANGE.worst("1,024 shards, 1,000 former numbers")
def changed(scene: Scene) -> Act:
    home = scene.own(Queue(scene.client, f"{{{NAME}}}"))
    home.execute(lambda spec: read(NAME, 1024))
    return lambda: home.execute(resize.change, NAME, 1, 1024, range(1, 1001))


@RETIRE.worst("an empty stream of dead letters")
def retired(scene: Scene) -> Act:
    shard = scene.own(Queue(scene.client, NAME))
    scene.client.xdel(f"{NAME}DEAD", scene.client.xadd(f"{NAME}DEAD", {"key": "a"}))
    return lambda: shard.execute(resize.retire, 1)


@REVIVE.worst("a retired shard")
def revived(scene: Scene) -> Act:
    shard = scene.own(Queue(scene.client, NAME))
    shard.execute(resize.retire, 1)
    return lambda: shard.execute(resize.revive, 2)


@SHARD_COUNTS.worst("a million leases ended")
def looked(scene: Scene) -> Act:
    shard = scene.own(Queue(scene.client, NAME))
    keys = QueueKeys.of(NAME)
    scene.fill(
        "redis.call('ZADD', KEYS[1], score, id)", (keys.backup,), scene.many(1_000_000), score=1
    )
    return lambda: shard.execute(operations.shard_counts)


@CLOSE.worst("a million messages")
def closed(scene: Scene) -> Act:
    shard = scene.queue(groups=Groups("customer"))
    scene.fill(OF_ITS_OWN, (scene.keys.ready,), scene.many(1_000_000))
    return lambda: shard.execute(resize.close, 2)


@SEAL.worst("a million groups")
def sealed(scene: Scene) -> Act:
    shard = scene.queue(groups=Groups("customer"))
    scene.fill(FILLED, scene.of_groups("BUSY", "TURNS"), scene.many(1_000_000))
    shard.execute(resize.close, 2)
    return lambda: shard.execute(resize.seal)


@RELEASE.worst("a held shard")
def released(scene: Scene) -> Act:
    shard = scene.queue(groups=Groups("customer"))
    shard.execute(resize.retire, 1)
    shard.execute(resize.revive, 2)
    return lambda: shard.execute(resize.release, 2)
