"""The small benchmark: push, pop and ack beside a bare list and a stream, on your server."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from ackq.bench.circumstances import circumstances
from ackq.bench.contestants import Ackq, BareList, Contestant, Stream
from ackq.bench.figures import Result
from ackq.bench.rounds import contest, duel, measures_of
from ackq.core.client import client_of
from ackq.queue.keys import QueueKeys

CONTESTANTS: dict[str, type[Contestant]] = {"bare list": BareList, "streams": Stream, "ackq": Ackq}
ROUNDS = 6


def run(
    url: str,
    *,
    batch: int = 100,
    size: int = 100,
    seconds: float = 10.0,
    seed: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measure one by one and by ``batch``, for about ``seconds``; return the results.

    It uses keys of its own on the server at ``url``. It passes their names to ``say`` first, and
    deletes them at the end, even if interrupted. The server is busy meanwhile, and its CPU time
    includes the load of other clients.
    """
    prefix = f"ackq-bench-{secrets.token_hex(6)}:"
    cases = dict.fromkeys((1, batch))
    turn = seconds / (len(cases) * len(CONTESTANTS) * (ROUNDS + 1))
    settings = {"batch": batch, "size": size, "seconds": seconds, "seed": seed, "rounds": ROUNDS}
    with client_of(url) as client:
        facts = circumstances(client, "a server that was running, with its own settings", settings)
        result = Result("bench", facts)
        say(f"using the keys {prefix}*, which are deleted afterwards")
        try:
            for case in cases:
                name = "one by one" if case == 1 else f"by {case}"
                rounds = contest(
                    CONTESTANTS,
                    url,
                    case,
                    seed=seed,
                    rounds=ROUNDS,
                    seconds=turn,
                    size=size,
                    prefix=prefix,
                )
                result.measures += measures_of(name, rounds)
                result.ratios += duel(name, rounds, "ackq", "bare list")
                result.ratios += duel(name, rounds, "ackq", "streams")
        finally:
            for number in range(len(CONTESTANTS)):
                client.unlink(*QueueKeys.of(f"{prefix}{number}").all())
    return result
