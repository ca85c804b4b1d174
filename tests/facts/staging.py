"""The facts of staged rows: see `tests.facts.facts`."""

from ackq.delay.staging_client import DelayStaging
from ackq.queue.staging_client import Staging
from ackq.staging.client import StagingBase
from ackq.staging.keys import Staged
from ackq.topic.staging_client import TopicStaging
from benchmarks.worst.scene import KIB, LARGE, LISTED, MIB, NAME, Act, Scene
from tests.facts.facts import Facts

#: Tasks of one batch whose lists one commit takes without merging any.
TASKS = 1000

COMMIT = Facts(
    "staging/commit",
    calls=(("writer", 5, 2),),
    more_keys=(":list",),
    fewest=3,
    refused={"no writer": ("", 5, 2), "more counts than lists": ("writer", 5, 2, 2)},
)
DELAY = Facts(
    "staging/delay",
    calls=((10,),),
    fewest=1,
    mistakes=r"""
staging.test_scripts.test_rows_for_one_time_keep_their_order
  a later call begins at the same time
  - or behind(KEYS[first], row.due, score_of(row.due))
  + or row.due
""",
)
DROP = Facts(
    "staging/drop",
    calls=((),),
    more_keys=(":list",),
)
MERGE = Facts(
    "staging/merge",
    calls=((10,),),
    fewest=1,
)
QUEUE = Facts(
    "staging/queue",
    calls=((),),
)
STAGE = Facts(
    "staging/stage",
    calls=((60_000, "row"),),
    fewest=2,
    refused={"too many": (60_000, *["row"] * 17)},
)
TOPIC = Facts(
    "staging/topic",
    calls=((0, 0),),
    more_keys=(":messages:1",),
    fewest=2,
    mistakes=r"""
staging.test_topic.test_rows_get_the_next_indexes_in_their_order
  wakes nobody
  - local id = newest_text .. '-0'
  + do return {'ok', newest, 0} end local id = newest_text
""",
)


def staged(
    scene: Scene,
    staging: StagingBase,
    rows: int,
    size: int = 100,
    tasks: int = 1,
    line: str = LISTED,
) -> list[Staged]:
    """Stage rows as tasks would, ``rows`` by each task, without sending them."""
    keys = staging._staging.keys
    index = keys.index("writer", 1)
    found = []
    for task in range(tasks):
        each = Staged(f"t{task}", rows)
        name = keys.list("writer", 1, each)
        scene.fill(line, (name,), rows, size, first=1 + task * rows)
        scene.client.pexpire(name, 86_400_000)
        scene.client.sadd(index, name)
        found.append(each)
    return found


def of_queue(scene: Scene) -> Staging:
    """Return a writer of rows for the queue."""
    return scene.own(Staging(scene.client, NAME, "writer"))


@STAGE.worst("100 tasks of 16 rows, 1 MiB each")
def stage(scene: Scene) -> Act:
    staging, row = of_queue(scene), b"x" * scene.size(63 * KIB)

    def work() -> None:
        for task in range(100):
            staging.stage(1, Staged(f"t{task}"), [row] * 16)

    return work


@STAGE.worst("a row of 64 MiB")
def stage_large(scene: Scene) -> Act:
    staging, row = of_queue(scene), b"x" * scene.size(64 * MIB)
    return lambda: staging.stage(1, Staged("task"), [row])


@COMMIT.worst("1,000 lists of 1,000 rows")
def commit(scene: Scene) -> Act:
    staging = of_queue(scene)
    tasks = staged(scene, staging, max(1, scene.many(1_000_000) // TASKS), tasks=TASKS)
    return lambda: staging.commit(1, tasks)


@MERGE.worst("2,000 lists of 1,000 rows")
def merge(scene: Scene) -> Act:
    staging = of_queue(scene)
    tasks = staged(scene, staging, max(1, scene.many(2_000_000) // 2000), tasks=2 * TASKS)
    return lambda: staging.commit(1, tasks)


@MERGE.worst("1,001 lists, the second of 16 x 32 MiB")
def merge_large(scene: Scene) -> Act:
    staging = of_queue(scene)
    tasks = staged(scene, staging, 1, tasks=TASKS + 1)
    list_ = staging._staging.keys.list("writer", 1, tasks[1])
    scene.fill(LISTED, (list_,), 16, scene.size(32 * MIB))
    tasks[1].rows += 16
    return lambda: staging.commit(1, tasks)


@QUEUE.worst("1,000 x 0.9 MiB", rows=1000, size=LARGE)
@QUEUE.worst("300,000 rows", rows=300_000)
def into_queue(scene: Scene, rows: int, size: int = 100) -> Act:
    staging = of_queue(scene)
    tasks = staged(scene, staging, scene.many(rows), scene.size(size))
    scene.client.lpush(NAME, b"ready before")
    return lambda: staging.commit(1, tasks)


@DROP.worst("1,000 lists of 1,000 rows")
def drop(scene: Scene) -> Act:
    staging = of_queue(scene)
    staged(scene, staging, max(1, scene.many(1_000_000) // TASKS), tasks=TASKS)
    return lambda: staging.abort(1)


@DROP.worst("1,000 lists of 0.9 MiB")
def drop_large(scene: Scene) -> Act:
    staging = of_queue(scene)
    staged(scene, staging, 1, scene.size(LARGE), tasks=TASKS)
    return lambda: staging.abort(1)


@DELAY.worst("16 x 32 MiB", rows=16, size=32 * MIB)
@DELAY.worst("1,000 x 0.9 MiB", rows=1000, size=LARGE)
@DELAY.worst("30,000 rows into 1,024 partitions", rows=30_000, partitions=1024)
@DELAY.worst("300,000 rows, one due time for all", rows=300_000)
def into_delay(scene: Scene, rows: int, size: int = 100, partitions: int | None = None) -> Act:
    staging = scene.own(DelayStaging(scene.client, NAME, "writer", partitions=partitions))
    line = (
        f"redis.call('LPUSH', KEYS[1], n % {partitions or 1} + 1 .. ':{scene.far}:' .. #id .. ':'"
        " .. id .. body)"
    )
    tasks = staged(scene, staging, scene.many(rows), scene.size(size), line=line)
    return lambda: staging.commit(1, tasks)


@DELAY.worst("1,000 x 0.9 MiB, their keys taken by as long ones")
def delay_refused(scene: Scene) -> Act:
    line = "redis.call('ZADD', KEYS[1], score, id) redis.call('HSET', KEYS[2], id, body)"
    keys = (f"{NAME}:z".encode(), f"{NAME}:h".encode())
    scene.fill(line, keys, 1000, scene.size(LARGE) + 8, score=scene.far)
    return into_delay(scene, 1000, LARGE)


@TOPIC.worst("16 x 32 MiB", rows=16, size=32 * MIB)
@TOPIC.worst("1,000 x 0.9 MiB", rows=1000, size=LARGE)
@TOPIC.worst("300,000 rows that expire", rows=300_000, max_age=86_400)
@TOPIC.worst("300,000 rows", rows=300_000)
def into_topic(scene: Scene, rows: int, size: int = 100, max_age: float | None = None) -> Act:
    staging = scene.own(TopicStaging(scene.client, NAME, "writer", max_age=max_age))
    tasks = staged(scene, staging, scene.many(rows), scene.size(size))
    return lambda: staging.commit(1, tasks)
