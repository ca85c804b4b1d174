"""The facts of stored schedules: see `tests.facts.facts`."""

from ackq.queue import schedules
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.example import SPEC
from tests.facts.facts import Facts
from tests.facts.refused import bad

PUT_CALL = ("s", "v" * 16, "{}", "", 0)
PUT = Facts(
    "schedules/put",
    calls=(PUT_CALL,),
    fewest=3,
    refused=bad(
        PUT_CALL,
        {0: ("", "x" * 201), 1: ("", "v" * 15), 2: ("x" * 16_385,), 3: ("v" * 17,), 4: ("2", "")},
    ),
    operation=lambda: schedules.put(SPEC, "s", {}, 60.0, None, "UTC", "none", None),
    replies=[[b"stored", 1]],
    passes={
        "schedule": ["s"],
        "version": [SPEC.outside.token(8).hex()],
        "definition": [
            b'{"message":{},"every":60.0,"zone":"UTC","catch_up":"none","paused":false}'
        ],
        "former": [b""],
        "keep": [0],
    },
    mistakes=r"""
worker.test_scripts.test_a_schedule_is_stored_listed_replaced_and_removed
  keeps the ticks of former times
  - if keep == '0' then
  + if false then
  loses the ticks that may be caught up
  - if keep == '0' then
  + if true then
  keeps the ticks of what is removed
  - redis.call('HDEL', ticks, schedule, schedule .. ':missed')
  keeps the former definition
  - 'HSET', schedules,
  + 'HSETNX', schedules,
worker.test_scripts.test_a_schedule_replaces_only_the_version_that_its_caller_knows
  overwrites what another client stored
  - if known ~= former then
  + if false then
  takes a call that is sent again for another one
  - if known ~= version then --
  + if true then --
worker.test_scripts.test_a_worker_s_own_schedule_keeps_its_ticks
  removes the ticks of others
  - if not stored then
  + if false then
worker.test_scripts.test_there_are_at_most_256_schedules
  stores any number
  - MAX_SCHEDULES = 256
  + MAX_SCHEDULES = 1000000
  replaces none of a full list
  - if not stored and
  + if
""",
)
LIST = Facts(
    "schedules/list",
    calls=((),),
    fewest=0,
    operation=lambda: schedules.read(SPEC),
    replies=[[1]],
    passes={},
    mistakes=r"""
worker.test_scripts.test_a_schedule_is_stored_listed_replaced_and_removed
  hides what was missed
  - tonumber(seen[2] or 0)
  + tonumber(seen[1] or 0)
  hides the latest tick
  - tonumber(seen[1] or 0)
  + 0
""",
)


@PUT.worst("100 of 16 KiB")
def large_definitions(scene: Scene) -> Act:
    queue, message = scene.queue(), {"x": "x" * 16_000}

    def put() -> str:
        return queue.execute(schedules.put, "s", message, 60.0, None, "UTC", "none", None)

    return times(100, put)


@LIST.worst("256 of 16 KiB")
def many_large(scene: Scene) -> Act:
    queue, message = scene.queue(), {"x": "x" * 16_000}
    for n in range(256):
        queue.execute(schedules.put, f"s{n}", message, 60.0, None, "UTC", "none", None)
    return lambda: queue.execute(schedules.read)
