"""The facts of staged rows: see `tests.facts.facts`."""

from ackq.delay.staging_client import DelayStaging
from ackq.queue.staging_client import Staging
from ackq.staging.client import StagingBase
from ackq.staging.keys import Staged
from ackq.topic.staging_client import TopicStaging
from benchmarks.worst.scene import KIB, LARGE, LISTED, MIB, NAME, Act, Scene
from tests.facts.facts import Facts

SHORT, LONG = [b"%d" % n for n in range(2010)], [b"x" * 400_000] * 5
#: Tasks of one batch whose lists one commit takes without merging any.
TASKS = 1000

COMMIT = Facts(
    "staging/commit",
    calls=(("writer", 5, 2),),
    more_keys=(":list",),
    fewest=3,
    refused={"no writer": ("", 5, 2), "more counts than lists": ("writer", 5, 2, 2)},
    mistakes=r"""
staging.test_staging.test_a_batch_that_was_committed_is_dropped
  given: batch=7
  knows no marker
  - if marker >= batch then
  + if false then
  takes the same batch again
  - marker >= batch
  + marker > batch
  sets no marker
  - redis.call('HSET', commits, writer, string.format('%.0f', batch))
staging.test_staging.test_what_is_staged_expires_and_what_is_committed_does_not
  lets committed rows expire
  - redis.call('PERSIST', list)
staging.test_staging.test_rows_are_seen_after_the_commit_and_in_their_order
  forgets the rows
  - redis.call('ZADD', held, 0, list)
staging.test_staging.test_rows_that_were_pushed_twice_fail_the_commit
  does not count
  - redis.call('LLEN', KEYS[HEAD + i]) ~= staged
  + false
staging.test_scripts.test_a_commit_keeps_the_lists_and_marks_the_batch
  a batch of fourteen digits
  - string.format('%.0f', batch)
  + tostring(batch)
  does not note the rows
  - redis.call('HSET', heldrows, list, ARGV[rows - 1 + i])
staging.test_staging.test_rows_that_expired_fail_the_commit_and_nothing_of_it_is_seen
  blames the first list
  - return {'lost', i}
  + return {'lost', 1}
""",
)
DELAY = Facts(
    "staging/delay",
    calls=((10,),),
    fewest=1,
    mistakes=r"""
staging.test_scripts.test_one_call_stores_a_mebibyte
  any number of bytes in one call
  the count of rows is left behind
staging.test_scripts.test_what_others_left_under_a_key_is_not_the_new_messages
  a lease of another is the new message's
  - count_up(first, 'ended', redis.call('ZREM', KEYS[first + 2], key))
  a count of another is the new message's
  - redis.call('HDEL', KEYS[first + 4], key)
staging.test_scripts.test_one_consumer_is_woken_by_the_next_message_and_only_by_it
  wakes nobody
  - redis.call('LPUSH', KEYS[first + 6], '1')
  wakes many
  - and redis.call('LLEN', KEYS[first + 6]) == 0 then
  + then
  wakes for what is not the next
  - stored[nearest] and
staging.test_scripts.test_a_body_without_a_time_is_due_now_and_a_time_is_bounded
  a body without a time stays without
  - redis.call('ZADD', KEYS[first], score_of(now), key)
  any time
  - math.min(latest[same], LATEST)
  + latest[same]
staging.test_delay.test_a_key_that_is_stored_with_another_body_makes_a_dead_letter
  drops a row whose key is taken
  - if is_other(row) then
  + if is_other(row) and false then
  takes any body for the same
  -     return differs(row)
  -   end
  -   if redis.call('HSETNX',
  +     return false
  +   end
  +   if redis.call('HSETNX',
staging.test_delay.test_rows_become_messages_with_the_commit
  skips a row
  - redis.call('LTRIM', list, 0, -#rows - 1)
  + redis.call('LTRIM', list, 0, -#rows - 2)
staging.test_delay.test_rows_are_ready_at_their_time
  is early
  - score_of(math.min(latest[same], LATEST))
  + 1
staging.test_scripts.test_rows_for_one_time_keep_their_order
  one time for all rows of a call
  - latest[same] + 1
  + latest[same]
  a later call begins at the same time
  - or behind(KEYS[first], row.due, score_of(row.due))
  + or row.due
test_budgets.test_a_stored_body_of_another_length_is_not_read_for_comparison
  a stored body of any length is read for comparison
  -   return redis.call('HSTRLEN', KEYS[row.first + 1], row.key) ~= #row.body
  -     or redis.call('HGET',
  +   return redis.call('HGET',
delay.test_counts.test_a_lease_that_another_client_left_behind_ends
  given: means="staging"
  a delivery goes on for ever
delay.test_counts.test_a_row_whose_key_is_stored_is_dead_at_once
  its dead letters are not counted
  - count_up(row.first, 'dead:duplicate key', 1)
delay.test_failure_notes.test_a_new_message_inherits_no_note
  given: means="staging"
  a new message inherits a note
  - redis.call('HDEL', KEYS[first + 7], key)
""",
)
DROP = Facts(
    "staging/drop",
    calls=((),),
    more_keys=(":list",),
    mistakes=r"""
staging.test_staging.test_an_abort_after_the_commit_deletes_nothing
  deletes what is committed
  - not redis.call('ZSCORE', held, list) and redis.call('TYPE',
  + redis.call('TYPE',
staging.test_scripts.test_what_is_committed_or_foreign_is_not_dropped
  deletes what is somebody else's
  -  and redis.call('TYPE', list).ok == 'list'
""",
)
MERGE = Facts(
    "staging/merge",
    calls=((10,),),
    fewest=1,
    mistakes=r"""
staging.test_staging.test_the_lists_of_many_tasks_are_merged
  takes the last row first
  - 'RIGHT', 'LEFT'
  + 'LEFT', 'LEFT'
staging.test_scripts.test_a_merge_needs_a_list_to_merge_into
  creates the list again
  - return -1 --
  + local _ = -1 --
staging.test_scripts.test_one_call_merges_a_mebibyte
  any number of bytes in one call
""",
)
QUEUE = Facts(
    "staging/queue",
    calls=((),),
    given={
        "many short bodies": {"bodies": SHORT, "replies": [1010, 10, 0]},
        "some long bodies": {"bodies": LONG, "replies": [2, 0]},
    },
    mistakes=r"""
staging.test_scripts.test_a_list_goes_behind_ready_messages_in_steps
  given: many short bodies
  replaces ready messages
  - if waiting == 0 then
  + if waiting then
  at the front
  - redis.call('LPUSH', ready
  + redis.call('RPUSH', ready
  any number in one step
  - CHUNK = 1000
  + CHUNK = 10000
  given: some long bodies
  large rows by the slice
  - math.floor((BODY_BUDGET - bytes) / largest)
  + SLICE
staging.test_scripts.test_a_list_of_any_length_becomes_the_ready_list_if_it_is_empty
  moves a list row by row though none is ready
  - if waiting == 0 then
  + if not waiting then
staging.test_scripts.test_a_list_that_would_expire_becomes_a_ready_list_that_does_not
  the ready list expires
  - redis.call('PERSIST', ready)
staging.test_scripts.test_the_count_of_what_is_left_is_kept
  the count of rows is left behind
staging.test_scripts.test_a_list_that_is_not_committed_is_left_alone
  given: script="staging/queue", slot="moving", reply=0
  moves what is not committed
  - if redis.call('ZSCORE', held, list) ~= '0' then
  + if false then
""",
)
STAGE = Facts(
    "staging/stage",
    calls=((60_000, "row"),),
    fewest=2,
    refused={"too many": (60_000, *["row"] * 17)},
    mistakes=r"""
staging.test_staging.test_what_is_staged_expires_and_what_is_committed_does_not
  lets rows live for ever
  - redis.call('PEXPIRE', list, ARGV[1])
staging.test_scripts.test_a_list_is_begun_once_with_a_time_to_live
  lets the index live for ever
  - redis.call('PEXPIRE', index, ARGV[1])
  adds to a list that is there
  - return 0
  + local _ = 0
staging.test_staging.test_attempts_that_the_commit_does_not_name_are_deleted
  does not note the list
  - redis.call('SADD', index, list)
""",
)
TOPIC = Facts(
    "staging/topic",
    calls=((0, 0),),
    more_keys=(":messages:1",),
    fewest=2,
    mistakes=r"""
staging.test_topic.test_rows_get_the_next_indexes_in_their_order
  leaves published rows on the list
  - redis.call('LTRIM', list, 0, -count - 1)
  + redis.call('LTRIM', list, 0, -count)
  publishes the last row first
  - redis.call('LINDEX', list, -count)
  + redis.call('LINDEX', list, count - 1)
  wakes nobody
  - local id = newest_text .. '-0'
  + do return {'ok', newest, 0} end local id = newest_text
staging.test_scripts.test_one_call_publishes_a_mebibyte_or_a_thousand_rows
  any number of bytes in one call
  any number of rows in one call
  - local MAX_IN_CALL = 1000
  + local MAX_IN_CALL = 1500
  the count of rows is left behind
staging.test_scripts.test_a_wrong_guess_publishes_nothing
  publishes under a wrong guess
  - if newest < guess or
  + if
staging.test_scripts.test_a_topic_that_was_begun_anew_wakes_its_consumers
  wakes nobody of a topic that was started again
  -     redis.call('DEL', wake)
  -     redis.call('XADD', wake, 'MAXLEN', '~', 1, id, 'n', '')
staging.test_scripts.test_a_list_that_is_not_committed_is_left_alone
  given: script="staging/topic", slot="moving", reply=[b"ok", 0, 0]
  publishes what is not committed
  - if not redis.call('ZSCORE', held, list)
  + if false
staging.test_topic.test_a_message_beyond_the_newest_index_is_not_overwritten
  overwrites
  - redis.call('EXISTS', unpack(messages)) > 0
  + false
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
