"""The facts of the record of a queue's past: see `tests.facts.facts`."""

from ackq.ops.chronicle.store import history_key, update
from benchmarks.worst.scene import KIB, NAME, Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.refused import bad

STORE_CALL = ("", "1", 60_000, "field", "value")
STORE = Facts(
    "history/store",
    calls=(STORE_CALL,),
    fewest=3,
    refused={
        **bad(STORE_CALL, {0: ("x" * 65,), 1: ("", "x" * 65), 4: ("x" * 524_288,)}),
        "no value": STORE_CALL[:4],
        "many fields": (*STORE_CALL[:3], *["field", "value"] * 65),
    },
)


@STORE.worst("64 fields of 8 KiB")
def store(scene: Scene) -> Act:
    queue, key = scene.queue(), history_key("list", NAME)
    fields = {b"h%d" % number: b"x" * (8 * KIB - 8) for number in range(64)}
    numbers = iter(range(1_000_000))

    def write() -> None:
        token = f"token {next(numbers)}"
        assert queue.execute(lambda _: update(key, token, (), lambda _: fields))

    return times(20, write)
