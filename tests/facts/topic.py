"""The facts of topics: see `tests.facts.facts`."""

from typing import Any

from ackq.topic import Batch, Topic
from benchmarks.worst.scene import KIB, LARGE, MIB, NAME, Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.refused import bad

READER = "reader"
PLACE, LEASES, RANGES = (
    f"{NAME}:{part}:{READER}".encode() for part in ("consumers", "leases", "ranges")
)
TOKEN = "0123456789abcdef"

COMMIT = Facts(
    "topic/commit",
    calls=((f"1:1:{TOKEN}",),),
    refused={"no range": ("1:1",), "too many": ("1:1:x",) * 1001},
    mistakes=r"""
faults.test_failover.test_a_topic_is_committed_and_read_on_while_its_slot_moves
  looks at what it has emptied (error)
  - if place ~= before then
  + redis.call('ZCARD', leases)
  + if place ~= before then
""",
)
CONSUME_CALL = (0, 2, 30_000_000, TOKEN, 0)
CONSUME = Facts(
    "topic/consume",
    calls=(CONSUME_CALL,),
    more_keys=(":messages:1", ":messages:2"),
    fewest=5,
    dependent=("skipped",),
    refused={"no range": (*CONSUME_CALL, "no range"), **bad(CONSUME_CALL, {3: ("no token",)})},
    mistakes=r"""
faults.test_failover.test_a_topic_is_committed_and_read_on_while_its_slot_moves
  removes the old range before it adds the new one (error)
  -   replace_old()
  +   replace_old()
  +   remove_old()
""",
)
EXTEND = Facts(
    "topic/extend",
    calls=((1_000_000, f"1:1:{TOKEN}"),),
    fewest=1,
    refused={"no range": (0, "1:x:y"), "too many": (0, *["1:1:x"] * 1001)},
)
PROBE = Facts(
    "topic/probe",
    calls=((),),
    more_keys=(":messages:1",),
    mistakes=r"""
topic.test_retention.test_a_new_consumer_starts_at_the_oldest_that_is_there
  the first, whether it is there or not (error)
  - return i
  + return 1
""",
)
PUBLISH_CALL = (2, 0, 0, 0, 1, 0, "body")
PUBLISH = Facts(
    "topic/publish",
    calls=(PUBLISH_CALL,),
    more_keys=(":messages:3",),
    fewest=7,
    dependent=("trims",),
    refused={
        "more bodies than keys": (*PUBLISH_CALL, "than keys"),
        "more trims than keys": (2, 0, 0, 2, 1, 0, "x"),
    },
)
SEEK = Facts(
    "topic/seek",
    calls=((1, "present"),),
    fewest=2,
    refused={"no place": ("start", "present")},
)
TRIM = Facts(
    "topic/trim",
    calls=((1, 1),),
    more_keys=(":messages:1",),
    fewest=2,
)


def of(scene: Scene, **settings: Any) -> Topic:
    """Return the topic of this scene."""
    return scene.own(Topic(scene.client, NAME, **settings))


def published(scene: Scene, count: int, size: int = 100) -> None:
    """Publish messages, and subscribe a reader at the first."""
    line = "redis.call('SET', KEYS[1] .. n, body)"
    scene.fill(line, (f"{NAME}:messages:".encode(),), count, size)
    scene.client.set(f"{NAME}:nextIndex", count)
    scene.client.set(PLACE, 0)


def ranges(scene: Scene, count: int, score: float, leased: bool = True) -> list[Batch]:
    """Lease ``count`` ranges of a message each, and return them as their reader has them."""
    lease = "redis.call('ZADD', KEYS[2], score, range)" if leased else ""
    line = f"""local range = string.format('%.0f:%.0f:{TOKEN}', n, n)
      redis.call('ZADD', KEYS[1], n, range) {lease}"""
    scene.fill(line, (RANGES, LEASES), count, score=score)
    return [Batch(NAME, READER, n, n, (), f"{n}:{n}:{TOKEN}".encode()) for n in range(1, count + 1)]


def reading(scene: Scene, calls: int, **settings: Any) -> Act:
    """Return a function that reads ``calls`` times, a thousand messages each, and commits none."""
    topic = of(scene, **settings)
    return times(calls, lambda: topic.consume(READER, 1000))


@PUBLISH.worst("100,000 x 4 KiB")
def publish(scene: Scene) -> Act:
    topic, text = of(scene), b"x" * scene.size(4 * KIB)
    return lambda: topic.publish_many([text] * scene.many(100_000))


@PUBLISH.worst("100 x 0.9 MiB that expire, and trim as many")
def publish_large(scene: Scene) -> Act:
    published(scene, 1000, scene.size(LARGE))
    topic, text = of(scene, max_age=3600, max_messages=100), b"x" * scene.size(LARGE)
    return lambda: topic.publish_many([text] * 100)


@PUBLISH.worst("a backlog of 300,000 to trim")
def publish_trimming(scene: Scene) -> Act:
    published(scene, scene.many(300_000))
    topic = of(scene, max_messages=1)
    return times(100, lambda: topic.publish_many([b"x"] * 1000))


@CONSUME.worst("300,000 messages")
def consume(scene: Scene) -> Act:
    published(scene, scene.many(300_000))
    return reading(scene, 300)


@CONSUME.worst(
    "16 x 32 MiB, at most once", count=16, size=32 * MIB, calls=16, delivery="at_most_once"
)
@CONSUME.worst("16 x 32 MiB", count=16, size=32 * MIB, calls=16)
@CONSUME.worst("1,000 x 0.9 MiB", count=1000, size=LARGE, calls=100)
def consume_large(scene: Scene, count: int, size: int, calls: int, **settings: Any) -> Act:
    published(scene, count, scene.size(size))
    return reading(scene, calls, **settings)


@CONSUME.worst("16 x 32 MiB behind 16 small")
def consume_behind_small(scene: Scene) -> Act:
    published(scene, 32, 100)
    line = "redis.call('SET', KEYS[1] .. n, body)"
    messages = f"{NAME}:messages:".encode()
    scene.fill(line, (messages,), 16, scene.size(32 * MIB), first=17)
    return reading(scene, 16)


@CONSUME.worst("300,000 leases ended at once")
def consume_expired(scene: Scene) -> Act:
    count = scene.many(300_000)
    published(scene, count)
    ranges(scene, count, 1)
    return reading(scene, 300)


@CONSUME.worst("300,000 ranges committed behind one that is not")
def consume_joined(scene: Scene) -> Act:
    count = scene.many(300_000)
    published(scene, count)
    (first, *_) = ranges(scene, count, scene.far, leased=False)
    scene.client.zadd(LEASES, {first.receipt: scene.far})
    topic = of(scene)
    return lambda: topic.consume(READER, 1000, commit=[first])


@CONSUME.worst("300,000 ranges void: the place was set back")
def consume_void(scene: Scene) -> Act:
    count = scene.many(300_000)
    published(scene, count)
    ranges(scene, count, scene.far)
    scene.client.zremrangebyrank(RANGES, 0, 0)
    return reading(scene, 1)


@CONSUME.worst("with 1,000 commits of 300,000 ranges")
def consume_committing(scene: Scene) -> Act:
    count = scene.many(300_000)
    published(scene, count)
    held = ranges(scene, count, scene.far)
    topic = of(scene)
    return lambda: topic.consume(READER, 1000, commit=held[1:1001])


@COMMIT.worst("100,000 of 300,000 ranges, the first last")
def commit(scene: Scene) -> Act:
    published(scene, scene.many(300_000))
    held = ranges(scene, scene.many(300_000), scene.far)[: scene.many(100_000)]
    topic = of(scene)
    return lambda: topic.commit(*reversed(held))


@COMMIT.worst("300,000 ranges void: the place was set back")
def commit_void(scene: Scene) -> Act:
    published(scene, scene.many(300_000))
    held = ranges(scene, scene.many(300_000), scene.far)
    scene.client.zremrangebyrank(RANGES, 0, 0)
    scene.client.set(PLACE, held[-1].last)
    scene.client.zadd(RANGES, {f"{held[-1].last + 9}:{held[-1].last + 9}:{TOKEN}": 1})
    scene.client.zremrangebyrank(RANGES, 1, -1)
    scene.fill(
        f"""local range = string.format('%.0f:%.0f:{TOKEN}', n, n)
      redis.call('ZADD', KEYS[1], n, range)""",
        (RANGES,),
        scene.many(300_000),
        first=held[-1].last + 10,
    )
    topic = of(scene)
    return lambda: topic.commit(held[0])


@EXTEND.worst("100,000 of 300,000 ranges")
def extend(scene: Scene) -> Act:
    published(scene, scene.many(300_000))
    held = ranges(scene, scene.many(300_000), scene.far)[: scene.many(100_000)]
    topic = of(scene)
    return lambda: topic.extend(*held, timeout=3600)


@EXTEND.worst("100,000 of 300,000 ranges released")
def release(scene: Scene) -> Act:
    published(scene, scene.many(300_000))
    held = ranges(scene, scene.many(300_000), scene.far)[: scene.many(100_000)]
    topic = of(scene)
    return lambda: topic.release(*held)


@SEEK.worst("300,000 ranges void")
def seek(scene: Scene) -> Act:
    published(scene, scene.many(300_000))
    ranges(scene, scene.many(300_000), scene.far)
    topic = of(scene)
    return lambda: topic.seek(READER, "end")


@PROBE.worst("300,000 gone in front")
def probe(scene: Scene) -> Act:
    count = scene.many(300_000)
    published(scene, 1)
    scene.client.rename(f"{NAME}:messages:1", f"{NAME}:messages:{count}")
    scene.client.set(f"{NAME}:nextIndex", count)
    return of(scene).oldest


@PROBE.worst("1,000 x 0.9 MiB")
def probe_large(scene: Scene) -> Act:
    published(scene, 1000, scene.size(LARGE))
    return times(20, of(scene).oldest)


@TRIM.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
@TRIM.worst("300,000 messages", count=300_000)
def trim(scene: Scene, count: int, size: int = 100) -> Act:
    published(scene, scene.many(count), scene.size(size))
    topic = of(scene)
    return lambda: topic.trim(0)
