"""The largest numbers that claims take, with no server."""

from typing import Any

import pytest

from ackq.config import QueueConfig
from ackq.core.claim_groups import MAX_INTEGER, MAX_LEASE
from ackq.core.effects import Operation, Request
from ackq.errors import ConfigurationError
from ackq.queue import claims
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from tests.outside import FIXED


def test_the_largest_numbers_of_claims() -> None:
    most = MAX_INTEGER
    spec = QueueSpec("q", QueueKeys.of("q"), QueueConfig(), outside=FIXED)
    group = claims.Group(spec, "g", MAX_LEASE, 1)
    keeping = claims.Group(spec, "g", MAX_LEASE, 1)
    keeping.kept.add(most)
    allowed: list[Operation[Any]] = [
        claims.claim(group, most - 1, 1, None, None),
        claims.claim(group, 0, most, None, None),
        claims.claim(group, 0, 1, most, None),
        claims.claim(group, 0, 1, None, most),
        claims.claim(group, 0, 1, 1, 1),
        claims.ack(group, most, MAX_LEASE),
        claims.ack(group, 0, 0),
        claims.forget(keeping, most),
        claims.readable(group, most, most),
        claims.readable(group, 0, 0),
        claims.read(group, most, most, most),
        claims.read(group, 1, 0, 1),
    ]
    for steps in allowed:
        assert isinstance(next(steps), Request)
    refused: list[Operation[Any]] = [
        claims.claim(group, most, 1, None, None),
        claims.claim(group, -1, 1, None, None),
        claims.claim(group, 0, most + 1, None, None),
        claims.claim(group, 0, 0, None, None),
        claims.claim(group, 0, 1, most + 1, None),
        claims.claim(group, 0, 1, 0, None),
        claims.claim(group, 0, 1, None, most + 1),
        claims.claim(group, 4, 1, None, 4),
        claims.ack(group, most + 1, 0),
        claims.ack(group, -1, 0),
        claims.ack(group, 1, MAX_LEASE + 1),
        claims.ack(group, 1, -1),
        claims.forget(group, most + 1),
        claims.forget(group, -1),
        claims.readable(group, most + 1, 1),
        claims.readable(group, -1, 1),
        claims.readable(group, 1, most + 1),
        claims.readable(group, 1, -1),
        claims.read(group, most + 1, 0, 1),
        claims.read(group, 0, 0, 1),
        claims.read(group, 1, most + 1, 1),
        claims.read(group, 1, -1, 1),
        claims.read(group, 1, 0, most + 1),
        claims.read(group, 1, 0, -1),
    ]
    for steps in refused:
        with pytest.raises(ConfigurationError):
            next(steps)
    claims.Group(spec, "g", 1.0)
    for timeout in (0.999, MAX_LEASE + 1):
        with pytest.raises(ConfigurationError):
            claims.Group(spec, "g", timeout)
