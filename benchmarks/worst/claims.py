"""Claims, and the lists that hold messages outside the queue."""

from __future__ import annotations

from ackq.queue.claims_client import Claims
from benchmarks.worst.case import Act, times, worst
from benchmarks.worst.scene import KIB, LARGE, MIB, NAME, Scene
from benchmarks.worst.taking import hold_lists, popping

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


@worst("claims/begin", "1,000 claims open")
def begin(scene: Scene) -> Act:
    return times(50, claimed(scene, OPEN, batches=OPEN).begin)


@worst("claims/claim", "3,000,000 ready at once")
def claim_whole(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.ready(count)
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@worst("claims/claim", "300,000 of 3,000,000 ready")
def claim_part(scene: Scene) -> Act:
    scene.ready(scene.many(3_000_000))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=scene.many(300_000))


@worst("claims/claim", "300,000 x 4 KiB ready, and one more")
def claim_pages(scene: Scene) -> Act:
    count = scene.many(300_000)
    scene.ready(count + 1, scene.size(4 * KIB))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@worst("claims/claim", "300,000 expired and due")
def claim_back(scene: Scene) -> Act:
    scene.leased(scene.many(150_000))
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    keys = (scene.keys.delayed, scene.keys.context)
    scene.fill(line, keys, scene.many(150_000), first=200_000)
    claims = begun(scene)
    return lambda: claims.claim(0, messages=scene.many(300_000))


@worst("claims/claim", "1,000 x 0.9 MiB expired")
def claim_large_expired(scene: Scene) -> Act:
    scene.leased(1000, scene.size(LARGE))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=1000)


@worst("claims/claim", "16 x 32 MiB expired")
def claim_larger_expired(scene: Scene) -> Act:
    scene.leased(16, scene.size(32 * MIB))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=16)


@worst("claims/claim", "1,000 x 0.9 MiB ready, and one more")
def claim_large(scene: Scene) -> Act:
    return _claim_ready(scene, 1000, LARGE)


@worst("claims/claim", "16 x 32 MiB ready, and one more")
def claim_larger(scene: Scene) -> Act:
    return _claim_ready(scene, 16, 32 * MIB)


def _claim_ready(scene: Scene, count: int, size: int) -> Act:
    scene.ready(count + 1, scene.size(size))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@worst("claims/claim", "100,000 expired, their bodies missing")
def claim_without_bodies(scene: Scene) -> Act:
    line = "redis.call('ZADD', KEYS[1], 1, id)"
    scene.fill(line, (scene.keys.backup,), scene.many(100_000))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=scene.many(100_000))


@worst("claims/ack", "3,000,000 kept")
def ack_kept(scene: Scene) -> Act:
    claims = claimed(scene, scene.many(3_000_000))
    return lambda: claims.ack(1)


@worst("claims/ack", "3,000,000 deleted")
def ack_deleted(scene: Scene) -> Act:
    claims = claimed(scene, scene.many(3_000_000))
    return lambda: claims.ack(1, keep=0)


@worst("claims/ack", "1,000 claims")
def ack_many(scene: Scene) -> Act:
    claims = claimed(scene, OPEN, batches=OPEN)
    return lambda: claims.ack(OPEN)


@worst("claims/ack", "1,000 x 0.9 MiB deleted")
def ack_large(scene: Scene) -> Act:
    claims = claimed(scene, 1000, scene.size(LARGE))
    return lambda: claims.ack(1, keep=0)


@worst("claims/beat", "1,000 claims of 11,000 held lists")
def beat(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(20, claimed(scene, OPEN, batches=OPEN).beat)


@worst("claims/release", "1,000 claims of 11,000 held lists")
def release(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return claimed(scene, OPEN, batches=OPEN).release


@worst("claims/forget", "3,000,000 messages")
def forget(scene: Scene) -> Act:
    claims = claimed(scene, scene.many(3_000_000))
    claims.ack(1)
    return lambda: claims.forget(1)


@worst("claims/forget", "1,000 x 0.9 MiB")
def forget_large(scene: Scene) -> Act:
    claims = claimed(scene, 1000, scene.size(LARGE))
    claims.ack(1)
    return lambda: claims.forget(1)


@worst("held/give_back", "1,000,000 in front of 1,000,000")
def give_back(scene: Scene) -> Act:
    count = scene.many(1_000_000)
    claims = claimed(scene, count)
    scene.ready(count)
    return claims.release


@worst("held/give_back", "1,000 x 0.9 MiB in front")
def give_back_large(scene: Scene) -> Act:
    return claimed(scene, 1000, scene.size(LARGE)).release


@worst("held/give_back", "16 x 64 MiB in front")
def give_back_larger(scene: Scene) -> Act:
    return claimed(scene, 16, scene.size(64 * MIB)).release


@worst("held/give_back", "100,000 behind, one score for all lists")
def give_back_behind(scene: Scene) -> Act:
    hold_lists(scene, 1000, 1, rows=max(1, scene.many(100_000) // 1000))
    return popping(scene.queue(), 1)


@worst("held/give_back", "300,000 for later, one due time for all")
def give_back_later(scene: Scene) -> Act:
    return _later(scene, scene.many(300_000), 100)


@worst("held/give_back", "100 x 0.9 MiB for later, all ids taken")
def give_back_large_later(scene: Scene) -> Act:
    scene.leased(100, 100, scene.far)
    return _later(scene, 100, scene.size(LARGE))


@worst("held/give_back", "16 x 32 MiB for later")
def give_back_larger_later(scene: Scene) -> Act:
    return _later(scene, 16, scene.size(32 * MIB))


def _later(scene: Scene, count: int, size: int) -> Act:
    name = scene.keys.ready + b"STAGED:writer:1:task:delayed"
    line = f"redis.call('LPUSH', KEYS[1], '{scene.far}:' .. body)"
    scene.fill(line, (name,), count, size)
    scene.client.zadd(scene.keys.held, {name: 0})
    scene.client.hset(scene.keys.heldrows, name, count)
    return popping(scene.queue(), 1)


@worst("held/scan", "10,000 held lists")
def scan(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(5, scene.queue().claims)


@worst("held/audit", "1,000 held lists with wrong counts")
def audit(scene: Scene) -> Act:
    hold_lists(scene, 1000, scene.far)
    scene.fill(
        "redis.call('HSET', KEYS[1], KEYS[2] .. n, 9)",
        (scene.keys.heldrows, scene.keys.claim("other", 0)[:-1]),
        1000,
    )
    queue = scene.queue()
    return lambda: queue.audit(repair=True)


@worst("held/drop", "3,000,000 messages in one list")
def drop(scene: Scene) -> Act:
    claimed(scene, scene.many(3_000_000))
    return scene.queue().purge


@worst("held/drop", "1,000 x 0.9 MiB in one list")
def drop_large(scene: Scene) -> Act:
    claimed(scene, 1000, scene.size(LARGE))
    return scene.queue().purge


@worst("held/drop", "1,000 held lists")
def drop_many(scene: Scene) -> Act:
    hold_lists(scene, 1000, scene.far)
    return scene.queue().purge
