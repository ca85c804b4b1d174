"""The counts of a queue as its script returns them, and the settings of a client; no server."""

from typing import Any

import pytest

from ackq.errors import ConfigurationError
from ackq.rsmq import RSMQ, AsyncRSMQ
from ackq.rsmq.values import RSMQCounters, RSMQSpec
from tests.outside import FIXED


def test_the_counts_of_a_queue() -> None:
    found = RSMQCounters.of([5_000_000, b"7", b"100", b"60", 30, 4, 9])
    assert found == RSMQCounters(5.0, 7, 100, 60, 66, 9, 4)
    found = RSMQCounters.of([5_000_000, b"7000000000000", None, b"x", 30, 4, -1])
    assert found == RSMQCounters(5.0, 7_000_000_000, 0, 0, 0, None, 4)


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
def test_the_settings_of_a_client_at_their_limits(kind: Any) -> None:
    url = "redis://127.0.0.1:7777/3?socket_timeout=1.5"
    for most in (None, 1, 1_000_000):
        made = kind.from_url(url, "ns", realtime=True, max_receives=most, record_errors="type")
        assert made._spec == RSMQSpec("ns", True, most or 0, "type", 0.75, outside=FIXED)
        assert made.address == "127.0.0.1:7777/3"
    for wrong in (0, 1_000_001, True, "1"):
        with pytest.raises(ConfigurationError, match="max_receives"):
            kind.from_url(url, max_receives=wrong)
    with pytest.raises(ConfigurationError, match="record_errors"):
        kind.from_url(url, record_errors="all")
    assert kind.from_url(url)._spec == RSMQSpec("rsmq", block_limit=0.75, outside=FIXED)
