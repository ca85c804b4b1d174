"""The facts of stored schedules: see `tests.facts.facts`."""

from ackq.queue import schedules
from benchmarks.worst.scene import Act, Scene, times
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
)
LIST = Facts(
    "schedules/list",
    calls=((),),
    fewest=0,
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
