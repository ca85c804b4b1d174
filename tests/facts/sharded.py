"""The facts of sharded queues: see `tests.facts.facts`."""

from ackq import Groups, Queue
from ackq.membership.shards import read
from ackq.queue.keys import QueueKeys
from ackq.sharded import operations, resize
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts
from tests.facts.groups.list import FILLED
from tests.facts.groups.pop import OF_ITS_OWN
from tests.facts.refused import bad
from tests.queue.scripts.grouped import RECORD, fields

NAME = "ackq-benchmark:sharded"
SETTINGS = [part for pair in fields(RECORD).items() for part in pair]

CHANGE_CALL = (1, 3, "")
CHANGE = Facts(
    "sharded/change",
    calls=(CHANGE_CALL,),
    fewest=3,
    refused=bad(CHANGE_CALL, {2: ("x", "1" * 8193)}),
)
SHARD_COUNTS = Facts(
    "sharded/look",
    calls=((),),
    mistakes=r"""
sharded.test_choice.test_a_look_counts_what_a_pop_would_take
  does not see that it is paused
  - redis.call('EXISTS', paused)
  + 0
""",
)
OPEN = Facts(
    "sharded/open",
    calls=((2,),),
    fewest=1,
)
RETIRE = Facts(
    "sharded/retire",
    calls=((5,),),
    fewest=1,
    mistakes=r"""
sharded.test_resize.test_a_shard_is_retired_only_if_it_has_nothing
  overwrites the string of another program
  - redis.call('GET', ready))
  + redis.call('GET', ready)) or 0
""",
)
REVIVE = Facts(
    "sharded/revive",
    calls=((5, *SETTINGS),),
    fewest=1,
    mistakes=r"""
sharded.test_resize.test_a_shard_is_revived_by_a_later_version_only
  any version
  - if outside(version, 1, 9007199254740991) then
  + if not version then version = 0 elseif false then
""",
)


CLOSE = Facts(
    "sharded/close",
    calls=((5,),),
    fewest=1,
)
SEAL = Facts(
    "sharded/seal",
    calls=((),),
    fewest=0,
)
RELEASE = Facts(
    "sharded/release",
    calls=((5,),),
    fewest=1,
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
