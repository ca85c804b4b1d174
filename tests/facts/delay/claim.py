"""The facts of delay/claim.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import EXTENDED, LEASES, RECEIVES, H, Z, claiming, stored, taken
from benchmarks.worst.scene import MIB, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "delay/claim",
    calls=((1, 2, 10, 0, 3600 * SECOND, 0),),
    fewest=6,
    mistakes=r"""
delay.test_claim_scripts.test_ready_messages_are_leased_where_they_are_in_their_order
  other consumers see the messages
  - score_of(deadline), key
  + listed[2 * i], key
""",
)


@FACTS.worst("100,000 of 1,000,000, ready since one time")
def claim(scene: Scene) -> Act:
    stored(scene, scene.many(1_000_000))
    claims, count = claiming(scene), scene.many(100_000)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("100,000 whose leases ended, with counts")
def claim_back(scene: Scene) -> Act:
    count = scene.many(100_000)
    line = """redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)
      redis.call('ZADD', KEYS[3], 1000000, id) redis.call('HSET', KEYS[4], id, 3)
      redis.call('HSET', KEYS[5], id, '999000:1000000')"""
    scene.fill(line, (Z, H, LEASES, RECEIVES, EXTENDED), count)
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("100,000 that others made ready under a lease")
def claim_leased(scene: Scene) -> Act:
    count = scene.many(100_000)
    taken(scene, count)
    scene.fill("redis.call('ZADD', KEYS[1], 1, id)", (Z,), count)
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("100,000 without bodies")
def claim_without_bodies(scene: Scene) -> Act:
    count = scene.many(100_000)
    scene.fill("redis.call('ZADD', KEYS[1], 1, id)", (Z,), count)
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("16 x 32 MiB, by a stranger")
def claim_larger(scene: Scene) -> Act:
    stored(scene, 16, scene.size(32 * MIB))
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=16)
