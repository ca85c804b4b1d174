"""The facts of workers: see `tests.facts.facts`."""

from ackq.config import RateLimit
from ackq.queue.registry import entries, leave_order
from ackq.worker.ratelimit import permit
from ackq.worker.registration import heartbeat
from ackq.worker.registration import leave as leave_list
from ackq.worker.schedule import tick
from benchmarks.worst.scene import LARGE, Act, Scene, times
from tests.facts.example import SPEC
from tests.facts.facts import Facts
from tests.facts.refused import bad
from tests.queue.scripts.space import SECOND

HEARTBEAT_CALL = ("w", "{}", 60 * SECOND)
HEARTBEAT = Facts(
    "worker/heartbeat",
    calls=(HEARTBEAT_CALL,),
    fewest=3,
    refused=bad(HEARTBEAT_CALL, {0: ("", "x" * 257), 1: ("", "x" * 8193)}),
    operation=lambda: heartbeat(SPEC, "w", b"{}", 30.0, b"quiet"),
    replies=[b""],
    passes={"worker": ["w"], "record": [b"{}"], "lifetime": [30_000_000], "obeyed": [b"quiet"]},
    mistakes=r"""
worker.test_list_scripts.test_an_order_waits_until_it_is_confirmed
  deletes any order
  - if order and order == obeyed then
  + if order then
  keeps an order that is confirmed
  - redis.call('HDEL', orders, worker)
  + redis.call('HGET', orders, worker)
  returns no order
  - return order or ''
  + return ''
worker.test_list_scripts.test_a_confirmation_does_not_delete_a_newer_order
  confirms by the verb
  - order == obeyed then
  + string.match(order, '%a+$') == string.match(obeyed, '%a+$') then
worker.test_list_scripts.test_a_worker_whose_entry_ended_is_not_listed_and_then_deleted
  keeps dead entries
  - if #ended > 0 then
  + if false then
  keeps dead records
  - redis.call('HDEL', doing, unpack(ended))
worker.test_list_scripts.test_an_order_outlives_the_entry_of_a_frozen_worker
  deletes orders of the dead
  -   redis.call('HDEL', doing, unpack(ended))
  +   redis.call('HDEL', doing, unpack(ended))
  +   redis.call('HDEL', orders, unpack(ended))
worker.test_list_scripts.test_one_heartbeat_deletes_a_hundred_entries
  deletes without a bound
  - , 'LIMIT', 0, 100)
  + )
worker.test_list_scripts.test_a_heartbeat_lists_a_worker_until_its_entry_ends
  never expires
  - redis.call('PEXPIRE', doing, left)
  keeps the first record
  - redis.call('HSET', doing
  + redis.call('HSETNX', doing
worker.test_list_scripts.test_the_keys_last_as_long_as_the_last_entry
  shortens the life of others
  - (tonumber(last[2]) - now)
  + lifetime
""",
)
LEAVE = Facts(
    "worker/leave",
    calls=(("w",),),
    fewest=1,
    operation=lambda: leave_list(SPEC, "w"),
    replies=[1],
    passes={"worker": ["w"]},
    mistakes=r"""
worker.test_list_scripts.test_a_worker_that_leaves_takes_its_order_along
  keeps the record
  - redis.call('HDEL', doing, worker)
  keeps the order
  - redis.call('HDEL', orders, worker)
""",
)
LIST = Facts(
    "worker/list",
    calls=((0,),),
    fewest=1,
    refused={"no cursor": ("x",)},
    operation=lambda: entries(SPEC),
    replies=[[b"0", 1]],
    passes={"cursor": [b"0"]},
    mistakes=r"""
worker.test_list_scripts.test_a_worker_whose_entry_ended_is_not_listed_and_then_deleted
  shows the dead
  - if ends > now then
  + if true then
worker.test_list_scripts.test_a_record_that_is_too_long_is_not_read
  reads long records
  - <= 8192
  + <= 1000000
worker.test_list_scripts.test_every_worker_is_listed_a_hundred_or_so_at_a_time
  reads all at once
  - 'COUNT', 100
  + 'COUNT', 100000
  stops early
  - local found = { page[1], now }
  + local found = { '0', now }
worker.test_list_scripts.test_an_order_waits_until_it_is_confirmed
  hides orders
  - redis.call('HGET', orders, worker) or ''
  + ''
""",
)
ORDER = Facts(
    "worker/order",
    calls=(("quiet", "w"),),
    fewest=2,
    refused={"too many": ("stop", *"w" * 101)},
    operation=lambda: leave_order(SPEC, "quiet", [b"w"]),
    replies=[[1]],
    passes={"order": ["quiet"], "workers": [b"w"]},
    mistakes=r"""
worker.test_list_scripts.test_a_worker_that_is_not_listed_gets_no_order
  reaches the dead
  - found[i - 1] = ends > now and 1 or 0
  -   if ends > now then
  + found[i - 1] = ends > 0 and 1 or 0
  +   if ends > 0 then
  reaches who is not there
  - if ends > now then
  + if true then
  never expires
  - redis.call('PEXPIRE', orders, 86400000)
worker.test_list_scripts.test_a_confirmation_does_not_delete_a_newer_order
  has no time
  - string.format('%.0f', now) .. ':' .. order
  + ':' .. order
""",
)
PERMIT = Facts(
    "worker/permit",
    calls=((1, 0, 1, 1_000_000, 1),),
    fewest=5,
    operation=lambda: permit(SPEC, RateLimit(100, per=2.0), 5, 1),
    replies=[[5, 0]],
    passes={
        "wanted": [5],
        "returned": [1],
        "count": [100],
        "period": [2_000_000],
        "burst": [5],
    },
    mistakes=r"""
worker.test_scripts.test_a_burst_is_permitted_and_then_the_rate
  takes nothing from the allowance
  - whole = whole + permitted * each
  says that the next is permitted now
  - math.ceil(whole + each - limit)
  + 0
worker.test_scripts.test_what_was_not_taken_is_given_back
  keeps what was not taken
  - math.max(now, whole - returned * each)
  + whole
  more than the burst
  - math.max(now, whole - returned * each)
  + whole - returned * each
worker.test_scripts.test_the_allowance_grows_with_time_and_expires
  the allowance never expires
  - (whole - now) / 1000) + 1)
  + (whole - now)) + 9000000)
worker.test_scripts.test_a_clock_that_was_set_back_delays_no_caller
  waits for the old clock
  - math.min(limit, math.max(
  + math.max(limit * 0, math.max(
""",
)
TICK = Facts(
    "worker/tick",
    calls=(("s", 1, 0, 0, b""), ("s", 1, 0, 0, b"", "right", "", "done", "mine")),
    fewest=5,
    refused={
        "another uniqueness": ("s", 1, 0, 0, b"", "right", "", "once", "id"),
        "an id that pop would not use": ("s", 1, 0, 0, b"", "right", "", "done", ""),
    },
    operation=lambda: tick(SPEC, "s", 3, 2, 1, b'{"id":"k"}', "", "done"),
    replies=[[b"pushed", 3, 4, 1]],
    passes={
        "schedule": ["s"],
        "tick": [3],
        "previous": [2],
        "missed": [1],
        "message": [b'{"id":"k"}'],
        "pop_from": ["right"],
        "version": [""],
        "unique": ["done"],
        "message_id": ["k"],
        "searched": [b""],
    },
    mistakes=r"""
test_push_unique.test_a_tick_is_left_out_while_its_message_is_queued
  given: unique="done"
  pushes every tick
  - (state == 'free' or (state == 'leased' and unique == 'taken')) and
  + true and
  does not look at what is in flight
  - (state == 'leased' and unique == 'taken')) and
  + state == 'leased') and
  does not note it
  -   note_listed(message_id, message, expiry, state == 'free')
test_push_unique.test_a_tick_whose_message_was_pushed_long_ago_asks_for_a_search
  believes what nobody searched
  - searched ~= '+' .. notes
  + false
  searches each time
  -     believe(message_id, notes, expiry)
worker.test_scripts.test_an_earlier_version_pushes_nothing
  ignores versions
  - if version ~= '' then
  + if false then
  pushes what was removed
  - if not stored or
  + if stored and
worker.test_scripts.test_a_tick_is_pushed_once
  pushes again
  - if tick <= latest or latest ~= previous then
  + if latest ~= previous then
  does not record the tick
  - redis.call('HSET', ticks, schedule, string.format('%.0f', tick))
worker.test_scripts.test_a_tick_goes_to_the_right_end_for_the_left
  always pushes on the left
  - pop_from == 'left' and 'RPUSH' or 'LPUSH'
  + 'LPUSH'
worker.test_scripts.test_only_a_worker_that_knows_the_latest_tick_pushes_and_counts
  whatever the worker knows
  - if tick <= latest or latest ~= previous then
  + if tick <= latest then
  forgets what was missed before
  - redis.call('HINCRBY', ticks
  + redis.call('HSET', ticks
worker.test_scripts.test_a_tick_that_lies_ahead_is_not_pushed
  pushes early
  - if tick > now then
  + if false then
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
