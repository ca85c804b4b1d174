"""The facts of delay/claim_read.lua: see `tests.facts.facts`."""

from ackq.delay import DelayClaims
from benchmarks.worst.delay import beside, claimed
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/claim_read",
    calls=((1, 0, 10),),
    fewest=3,
)


@FACTS.worst("100,000 of 1,000,000")
def claim_read(scene: Scene) -> Act:
    count = beside(scene)
    return _reading(claimed(scene, count), count)


@FACTS.worst("64 x 0.9 MiB")
def claim_read_large(scene: Scene) -> Act:
    return _reading(claimed(scene, 64, scene.size(LARGE)), 64)


@FACTS.worst("16 x 32 MiB, by a stranger")
def claim_read_larger(scene: Scene) -> Act:
    return _reading(claimed(scene, 16, scene.size(32 * MIB)), 16)


def _reading(claims: DelayClaims, count: int) -> Act:
    def read() -> None:
        at = 0
        while at < count:
            at += len(claims.read(1, at, count - at))

    return read
