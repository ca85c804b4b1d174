"""Claims, and the lists that hold messages outside the queue."""

from ackq.queue.claims_client import Claims
from benchmarks.worst.scene import NAME, Scene

#: Claims that one group has open: as many as one call passes.
OPEN = 1000


def begun(scene: Scene) -> Claims:
    """Return claims that have begun, so that they are their group's driver."""
    claims = scene.own(Claims(scene.client, NAME, "group"))
    claims.begin()
    return claims


def claimed(scene: Scene, count: int, size: int = 100, batches: int = 1) -> Claims:
    """Return a group that has claimed messages."""
    scene.ready(count, size)
    claims = begun(scene)
    for batch in range(batches):
        claims.claim(batch, messages=max(1, count // batches))
    return claims
