"""A group's driver, step by step, for the interleavings of claims of any kind of queue."""

from collections.abc import Callable
from typing import Any

from ackq.core.claim_groups import Claim
from ackq.core.effects import Operation
from ackq.errors import ClaimLost, Fenced
from tests.interleaving import PASSING, Actor, Life, Walk, repeating

#: ``read(actor, group, claim)`` reads a claim, and checks what it finds.
Read = Callable[[Actor, Any, Claim], Operation[None]]
#: ``turn(actor, group, claim, after)``: what the driver does between two claims.
Turn = Callable[[Actor, Any, Claim | None, int], Operation[None]]


def driving(
    walk: Walk, claims: Any, make_group: Callable[[], Any], read: Read, turn: Turn
) -> Callable[[Actor], Life]:
    """Return the life of a driver: it replays open claims, then claims, reads and takes a turn.

    Args:
        walk: draws what it does.
        claims: the module with the operations.
        make_group: makes its group.
        read: see `Read`.
        turn: see `Turn`.
    """

    def claim_next(group: Any, after: int) -> Operation[Claim | None]:
        draw = walk.random
        messages, size = draw.randint(1, 12), draw.choice([None, None, 60])
        batch = draw.choice([None, None, None, after + draw.randint(1, 3)])
        while True:
            try:
                claim: Claim | None = yield from claims.claim(group, after, messages, size, batch)
                return claim
            except PASSING:
                continue
            except ValueError:  # the number was used: by itself, and given back meanwhile
                batch = None

    def life(actor: Actor) -> Life:
        group = make_group()
        actor.epoch = lambda: group.epoch
        after = 0
        try:
            yield from repeating(lambda: claims.begin(group))
            for claim in (yield from repeating(lambda: claims.open_claims(group))):
                yield from read(actor, group, claim)
                after = claim.batch
            while True:
                claim = yield from claim_next(group, after)
                if claim is not None and claim.rows:
                    assert claim.batch > after
                    yield from read(actor, group, claim)
                    after = claim.batch
                yield from turn(actor, group, claim, after)
                if walk.random.random() < 0.1:
                    yield from repeating(lambda: claims.release(group))
                    return
        except (Fenced, ClaimLost):
            return

    return life
