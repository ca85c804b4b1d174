"""The facts of staged rows: see `tests.facts.facts`."""

from __future__ import annotations

from ackq.delay.staging_client import DelayStaging
from ackq.queue.staging_client import Staging
from ackq.staging.client import StagingBase
from ackq.staging.keys import Staged
from ackq.topic.staging_client import TopicStaging
from benchmarks.worst.scene import KIB, LARGE, LISTED, MIB, NAME, Act, Scene
from tests.facts.facts import Facts, Mistake

#: Tasks of one batch whose lists one commit takes without merging any.
TASKS = 1000

COMMIT = Facts(
    "staging/commit",
)
DELAY = Facts(
    "staging/delay",
    mistakes={
        "test_budgets.test_a_stored_body_of_another_length_is_not_read_for_comparison": (
            Mistake(
                "a stored body of any length is read for comparison",
                (
                    "  return redis.call('HSTRLEN', KEYS[row.first + 1], row.key) ~= #row.body\n"
                    "    or "
                ),
                "  return ",
            ),
        ),
        "delay.test_counts.test_a_lease_that_another_client_left_behind_ends": (
            Mistake(
                "a delivery goes on for ever",
                "count_up(first, 'ended', redis.call('ZREM', KEYS[first + 2], key))",
                "count_up(first, 'ended', 0 * redis.call('ZREM', KEYS[first + 2], key))",
                given={"means": "staging"},
            ),
        ),
        "delay.test_counts.test_a_row_whose_key_is_stored_is_dead_at_once": (
            Mistake(
                "its dead letters are not counted",
                "count_up(row.first, 'dead:duplicate key', 1)",
                "",
            ),
        ),
        "delay.test_failure_notes.test_a_new_message_inherits_no_note": (
            Mistake(
                "a new message inherits a note",
                "    redis.call('HDEL', KEYS[first + 7], key)\n",
                "",
                given={"means": "staging"},
            ),
        ),
    },
)
DROP = Facts(
    "staging/drop",
)
MERGE = Facts(
    "staging/merge",
)
QUEUE = Facts(
    "staging/queue",
)
STAGE = Facts(
    "staging/stage",
)
TOPIC = Facts(
    "staging/topic",
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


def _into_queue(scene: Scene, rows: int, size: int) -> Act:
    staging = of_queue(scene)
    tasks = staged(scene, staging, rows, size)
    scene.client.lpush(NAME, b"ready before")
    return lambda: staging.commit(1, tasks)


@QUEUE.worst("300,000 rows")
def queue(scene: Scene) -> Act:
    return _into_queue(scene, scene.many(300_000), 100)


@QUEUE.worst("1,000 x 0.9 MiB")
def queue_large(scene: Scene) -> Act:
    return _into_queue(scene, 1000, scene.size(LARGE))


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


def _into_delay(scene: Scene, rows: int, size: int, partitions: int | None = None) -> Act:
    staging = scene.own(DelayStaging(scene.client, NAME, "writer", partitions=partitions))
    line = (
        f"redis.call('LPUSH', KEYS[1], n % {partitions or 1} + 1 .. ':{scene.far}:' .. #id .. ':'"
        " .. id .. body)"
    )
    tasks = staged(scene, staging, rows, size, line=line)
    return lambda: staging.commit(1, tasks)


@DELAY.worst("300,000 rows, one due time for all")
def delay(scene: Scene) -> Act:
    return _into_delay(scene, scene.many(300_000), 100)


@DELAY.worst("30,000 rows into 1,024 partitions")
def delay_partitioned(scene: Scene) -> Act:
    return _into_delay(scene, scene.many(30_000), 100, partitions=1024)


@DELAY.worst("1,000 x 0.9 MiB")
def delay_large(scene: Scene) -> Act:
    return _into_delay(scene, 1000, scene.size(LARGE))


@DELAY.worst("16 x 32 MiB")
def delay_larger(scene: Scene) -> Act:
    return _into_delay(scene, 16, scene.size(32 * MIB))


@DELAY.worst("1,000 x 0.9 MiB, their keys taken by as long ones")
def delay_refused(scene: Scene) -> Act:
    line = "redis.call('ZADD', KEYS[1], score, id) redis.call('HSET', KEYS[2], id, body)"
    keys = (f"{NAME}:z".encode(), f"{NAME}:h".encode())
    scene.fill(line, keys, 1000, scene.size(LARGE) + 8, score=scene.far)
    return _into_delay(scene, 1000, scene.size(LARGE))


def _into_topic(scene: Scene, rows: int, size: int, max_age: float | None = None) -> Act:
    staging = scene.own(TopicStaging(scene.client, NAME, "writer", max_age=max_age))
    tasks = staged(scene, staging, rows, size)
    return lambda: staging.commit(1, tasks)


@TOPIC.worst("300,000 rows")
def topic(scene: Scene) -> Act:
    return _into_topic(scene, scene.many(300_000), 100)


@TOPIC.worst("300,000 rows that expire")
def topic_expiring(scene: Scene) -> Act:
    return _into_topic(scene, scene.many(300_000), 100, max_age=86_400)


@TOPIC.worst("1,000 x 0.9 MiB")
def topic_large(scene: Scene) -> Act:
    return _into_topic(scene, 1000, scene.size(LARGE))


@TOPIC.worst("16 x 32 MiB")
def topic_larger(scene: Scene) -> Act:
    return _into_topic(scene, 16, scene.size(32 * MIB))
