"""Leases end a random while later than asked, so that no two of a message end at one instant."""

from collections.abc import Callable

from tests.servers import Target

#: Seconds that the leases are asked for.
TIMEOUT = 10
#: Leases that are looked at.
LEASES = 40
#: What one may last longer than asked, in µs.
MOST = 65_535


def check_jitter(target: Target, name: str, lease: Callable[[], float]) -> None:
    """Check `LEASES` deadlines, in seconds, each of a lease that ``lease`` makes or extends.

    ``name`` is a key of the queue.
    """

    def now() -> int:
        seconds, micros = target.control.eval("return redis.call('TIME')", 1, name)
        return int(seconds) * 1_000_000 + int(micros)

    certain: list[int] = []
    for _ in range(LEASES):
        before = now()
        began = round(lease() * 1_000_000) - TIMEOUT * 1_000_000
        certain.append(began - now())
        assert began >= before
        assert certain[-1] <= MOST
    # Each is drawn from all that is possible, so half of them lie in its upper half.
    assert max(certain) > MOST / 2
