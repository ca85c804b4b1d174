"""The facts of a pipeline's rejected rows: see `tests.facts.facts`."""

from ackq.queue.keys import QueueKeys
from ackq.queue.row_dead_letters import RejectedRow
from ackq.queue.row_dead_letters_client import RowDeadLetters
from benchmarks.worst.scene import KIB, LARGE, MIB, NAME, Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad

REJECT_CALL = ("7", 1, "r", "", "b", "")
REJECT = Facts(
    "pipeline/reject",
    calls=(REJECT_CALL,),
    fewest=2,
    refused={
        **bad(REJECT_CALL, {0: ("", "x" * 65)}),
        "half a row": REJECT_CALL[:-1],
        "too many rows": ("7", 1, *["r"] * 4004),
    },
)


@REJECT.worst("10,000 x 2 KiB")
def reject(scene: Scene) -> Act:
    return _reject(scene, scene.many(10_000), 2 * KIB)


@REJECT.worst("100 x 0.9 MiB")
def reject_large(scene: Scene) -> Act:
    return _reject(scene, 100, LARGE)


@REJECT.worst("4 x 64 MiB")
def reject_larger(scene: Scene) -> Act:
    return _reject(scene, 4, 64 * MIB)


def _reject(scene: Scene, count: int, size: int) -> Act:
    rejects, body = scene.own(RowDeadLetters(scene.client, NAME, "writer")), b"x" * scene.size(size)
    rows = [RejectedRow(str(n), body, "no use") for n in range(count)]

    def work() -> None:
        rejects.begin("batch")
        rejects.reject("batch", rows)

    return work


@REJECT.worst("a new batch after one of 1,000,000 rows")
def reject_anew(scene: Scene) -> Act:
    key = QueueKeys.of(NAME).ready + b"REJECTED:writer"
    scene.client.hset(key, "batch", "former")
    scene.fill("redis.call('HSET', KEYS[1], 'row:' .. id, '')", (key,), scene.many(1_000_000))
    return _reject(scene, 500, 100)
