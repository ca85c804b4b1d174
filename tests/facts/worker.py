"""The facts of workers: see `tests.facts.facts`."""

from ackq.config import RateLimit
from ackq.queue.registry import entries, leave_order
from ackq.worker.feeder import permit
from ackq.worker.presence import heartbeat
from ackq.worker.presence import leave as leave_list
from ackq.worker.schedule import tick
from benchmarks.worst.scene import LARGE, Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.refused import bad
from tests.queue.scripts.space import SECOND

HEARTBEAT_CALL = ("w", "{}", 60 * SECOND)
HEARTBEAT = Facts(
    "worker/heartbeat",
    calls=(HEARTBEAT_CALL,),
    fewest=3,
    refused=bad(HEARTBEAT_CALL, {0: ("", "x" * 257), 1: ("", "x" * 8193)}),
    mistakes=r"""
worker.test_list_scripts.test_an_order_outlives_the_entry_of_a_frozen_worker
  deletes orders of the dead
  -   redis.call('HDEL', doing, unpack(ended))
  +   redis.call('HDEL', doing, unpack(ended))
  +   redis.call('HDEL', orders, unpack(ended))
""",
)
LEAVE = Facts(
    "worker/leave",
    calls=(("w",),),
    fewest=1,
)
LIST = Facts(
    "worker/list",
    calls=((0,),),
    fewest=1,
    refused={"no cursor": ("x",)},
)
ORDER = Facts(
    "worker/order",
    calls=(("quiet", "w"),),
    fewest=2,
    refused={"too many": ("stop", *"w" * 101)},
)
PERMIT = Facts(
    "worker/permit",
    calls=((1, 0, 1, 1_000_000, 1),),
    fewest=5,
)
TICK = Facts(
    "worker/tick",
    calls=(("s", 1, 0, 0, b""), ("s", 1, 0, 0, b"", "right", "", "done", "mine")),
    fewest=5,
    refused={
        "another uniqueness": ("s", 1, 0, 0, b"", "right", "", "once", "id"),
        "an id that pop would not use": ("s", 1, 0, 0, b"", "right", "", "done", ""),
    },
    mistakes=r"""
worker.test_scripts.test_only_a_worker_that_knows_the_latest_tick_pushes_and_counts
  forgets what was missed before
  - redis.call('HINCRBY', ticks
  + redis.call('HSET', ticks
""",
)


@PERMIT.worst("1,000 at a time")
def permit_many(scene: Scene) -> Act:
    queue, limit = scene.queue(), RateLimit(1_000_000_000, burst=1_000_000_000)
    return times(100, lambda: queue.execute(permit, limit, 1000, 0))


@TICK.worst("100 x 0.9 MiB, 10,000 schedules")
def ticks(scene: Scene) -> Act:
    scene.fill(
        "redis.call('HSET', KEYS[1], id, 1, id .. ':missed', 1)",
        (scene.keys.ticks,),
        scene.many(10_000),
    )
    queue, body = scene.queue(), b"x" * scene.size(LARGE)

    def work() -> None:
        for n in range(1, 100):
            queue.execute(tick, "schedule", n, n - 1, 0, body)

    return work


@HEARTBEAT.worst("100 calls, after 10,000 workers died at once")
def heartbeat_after_deaths(scene: Scene) -> Act:
    _list(scene, scene.many(10_000), "0")
    queue, record = scene.queue(), b"x" * 8192
    return times(100, lambda: queue.execute(heartbeat, "worker", record, 30.0, b""))


@LEAVE.worst("one of 10,000 workers")
def worker_leaves(scene: Scene) -> Act:
    _list(scene, scene.many(10_000), "8e15")
    queue = scene.queue()
    return lambda: queue.execute(leave_list, "1")


@LIST.worst("10,000 workers with records of 8 KiB")
def many_workers(scene: Scene) -> Act:
    _list(scene, scene.many(10_000), "8e15")
    queue = scene.queue()
    return lambda: queue.execute(entries)


@ORDER.worst("10,000 workers")
def order_many(scene: Scene) -> Act:
    count = scene.many(10_000)
    _list(scene, count, "8e15")
    queue, ids = scene.queue(), [b"%d" % number for number in range(count)]
    return lambda: queue.execute(leave_order, "quiet", ids)


def _list(scene: Scene, count: int, end: str) -> None:
    seen, doing, _ = scene.keys.workers
    scene.fill(
        f"redis.call('ZADD', KEYS[1], '{end}', id)"
        " redis.call('HSET', KEYS[2], id, string.rep('x', 8192))",
        (seen, doing),
        count,
    )
