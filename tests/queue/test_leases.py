"""How long a lease lasts."""

from typing import Any

import pytest

from tests.conftest import MakeQueue
from tests.jitter import LEASES, TIMEOUT, check_jitter
from tests.servers import Target


@pytest.mark.parametrize("verb", ["pop", "extend"])
def test_a_lease_ends_up_to_66_ms_later_than_asked(
    make_queue: MakeQueue, target: Target, name: str, verb: str
) -> None:
    queue = make_queue(visibility_timeout=TIMEOUT)
    queue.push_many({"n": number} for number in range(LEASES))
    message = queue.pop() if verb == "extend" else None

    def lease() -> float:
        held = message or queue.pop()
        assert verb == "pop" or queue.extend(held) == 1
        return float(held.lease_expires_at)

    check_jitter(target, name, lease)


@pytest.mark.parametrize("event", ["lease", "due time"])
def test_a_wait_for_a_time_sleeps_in_the_server(queue: Any, target: Target, event: str) -> None:
    queue.pop()
    queue.push({"id": "a"}, delay=0.5 if event == "due time" else None)
    if event == "lease":
        queue.pop(visibility_timeout=0.5)
    before = target.calls("evalsha", "blmove")
    assert queue.pop(timeout=30).id == "a"
    # Two looks and a wait, and some more where Redis or this machine is slow to wake it.
    assert target.calls("evalsha", "blmove") - before < 15
